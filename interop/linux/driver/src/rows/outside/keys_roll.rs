//! Rollovers that `wireseal keys roll` has planned, under traffic: the files of each step are put in place as its procedure says, by clocks that
//! are nearly as far apart as the plan allows.

use std::time::Duration;

use agent::Counted;
use tokio::time::sleep;
use wireseal_keys::KeyChains;
use wireseal_tcp_ao::Mkt;

use super::daemon::{Daemon, SESSION, Speaker, await_no_sockets, change_keys, supervise};
use super::pair::{ROUTES, established, start as start_pair};
use super::planned::{APART, NORTH, PORTS, Rollover, SOUTH, behind};
use super::program::mirrored;
use crate::guest::Guest;
use crate::row::prelude::*;
use crate::rows::bgp::{FIRST, await_signed_over, evidence};
use crate::rows::bird::{Bird, IPV4_ROUTES, IPV6_ROUTES, Since, State, tcp_ao};
use crate::wait::Program;

/// Up to so many seconds pass by themselves; over more, the clocks are set.
const SHORT: i64 = 15;
/// Seconds from one rollover to the next.
const DAY: i64 = 24 * 3600;
/// South's keys before the first rollover.
const KEYS: &str = "[[key-chain]]\nname = \"lab\"\n\n[[key-chain.key]]\nsend-id = 11\nrecv-id = 21\nalgorithm = \"AES-128-CMAC-96\"\n\
                    secret = \"what both ends know\"\n";
/// The algorithms of the new keys, one for each rollover. North's clock is ahead in the first rollover, south's in the second.
const ALGORITHMS: [&str; 2] = ["HMAC-SHA-1-96", "hmac(sha256)"];
pub fn rows() -> Vec<Row> {
    let row = |name: &str, ends: &str, routes: &str, has_bird: bool| {
        Row::new(
            format!("keys-roll-{name}"),
            format!(
                "two rollovers that wireseal keys roll plans, between {ends}; {routes} are sent again all the while, the clocks are {APART} s apart, \
                 one end takes each step as early as it may and the other as late; no segment is refused, the session stays up"
            ),
            async move |lab: &Lab| run(lab, has_bird).await,
            "the plan is edited: one end's first step may come after the other's last; --check refuses it, and so carried out it loses segments",
            async move |lab: &Lab| twin(lab, has_bird).await,
        )
    };
    vec![
        row("bird", "BIRD and FRR under wireseal run", "10,000 routes, and 1,000 the other way,", true),
        row(
            "wireseal",
            "GoBGP and FRR, each under wireseal run",
            "1,000 routes in each of two sessions",
            false,
        ),
    ]
}

/// What has the keys at one end.
enum End<'a> {
    Bird(Bird<'a>),
    Run(Program<'a>),
}

impl End<'_> {
    /// Puts a file in place.
    async fn put(&self, text: &str) -> Result<()> {
        match self {
            Self::Bird(bird) => bird.replace(text.to_owned()).await,
            Self::Run(program) => change_keys(program, text).await,
        }
    }
}

/// The two ends of a session, with their key files of today; FRR is at south, and announces its routes in each session.
struct Ends<'a> {
    lab: &'a Lab,
    south: &'a Guest,
    ends: [End<'a>; 2],
    files: [String; 2],
    /// How many sessions have these keys.
    sessions: usize,
}

impl<'a> Ends<'a> {
    /// Starts both, with BIRD or GoBGP at north.
    async fn start(lab: &'a Lab, has_bird: bool) -> Result<Self> {
        let south = lab.south().await?;
        let files = [mirrored(KEYS), KEYS.to_owned()];
        if !has_bird {
            let ends = start_pair(lab, &files, FIRST).await?.map(End::Run);
            return Ok(Self { lab, south, ends, files, sessions: 2 });
        }
        south.set_clock(FIRST).await?;
        let mkt = mkts(KEYS)?.remove(0);
        let bird = Bird::start(&lab.north, Port::South, &tcp_ao(&[&mkt], &mkt)?).await?;
        // A plan is for one session.
        let both = bird.text();
        let (one, _) = both.split_once("protocol bgp wireseal6").context("BIRD has a second session")?;
        bird.replace(one.to_owned()).await?;
        let speaker = Speaker { routes: ROUTES, ..Speaker::of_bird(Port::South) };
        let frr = supervise(south, Daemon::Frr, &speaker, KEYS).await?;
        let files = [one.to_owned(), KEYS.to_owned()];
        Ok(Self { lab, south, ends: [End::Bird(bird), End::Run(frr)], files, sessions: 1 })
    }

    /// Plans a rollover for an hour after this moment.
    fn plan(&self, now: i64, algorithm: &str) -> Result<Rollover<'a>> {
        let north = if matches!(self.ends[NORTH], End::Bird(_)) { "north.conf" } else { "north.toml" };
        Rollover::plan(self.lab, [north, "south.toml"], &self.files, now, algorithm)
    }

    /// Waits until all routes have been exchanged. Returns how often FRR has opened a session, and since when BIRD's is up.
    async fn await_routes(&self) -> Result<(u64, Option<Since>)> {
        let mut since = None;
        for end in &self.ends {
            match end {
                End::Bird(bird) => {
                    let all = IPV4_ROUTES + IPV6_ROUTES;
                    since = Some(bird.await_exported(Family::Ipv4, ROUTES, all).await?.since);
                }
                End::Run(program) => {
                    let is_up = async || {
                        let (up, _, sent) = established(self.south).await?;
                        Ok(up == self.sessions && sent >= (up * ROUTES) as u64)
                    };
                    program.await_log(SESSION, self.sessions).await?;
                    program.wait("FRR's routes", is_up).await?;
                }
            }
        }
        Ok((established(self.south).await?.1, since))
    }

    /// The time by the clock that is ahead. BIRD's guest does not have the clock that its operator goes by: BIRD needs none.
    async fn now(&self, ahead: usize) -> Result<i64> {
        let south: i64 = self.south.shell("date +%s").await?.trim().parse()?;
        Ok(south + behind(SOUTH, ahead))
    }

    /// Lets time pass until the clock that is ahead shows this moment.
    async fn pass_to(&self, ahead: usize, moment: i64) -> Result<()> {
        if moment - self.now(ahead).await? > SHORT {
            for (place, end) in self.ends.iter().enumerate() {
                if let End::Run(program) = end {
                    program.guest.set_clock(moment - behind(place, ahead)).await?;
                }
            }
        }
        let until = moment - behind(SOUTH, ahead);
        self.south.shell(&format!("while [ $(date +%s) -lt {until} ]; do sleep 0.1; done")).await.map(drop)
    }

    /// Makes both ends of each session send all their routes, again and again.
    async fn send_routes(&self) -> Result<()> {
        loop {
            self.south.shell("vtysh -c 'clear bgp * soft'").await?;
            sleep(Duration::from_secs(1)).await;
        }
    }

    /// Follows a procedure to its end.
    async fn follow(&self, rollover: &Rollover<'_>, ahead: usize) -> Result<()> {
        let await_new = async |place: usize| {
            await_signed_over(self.lab, Family::Ipv4, PORTS[place], rollover.new_key(place)?).await
        };
        for (moment, place, step) in rollover.events(ahead)? {
            self.pass_to(ahead, moment).await?;
            let action = step.as_ref().map(|step| step.action.as_str());
            if let Some(step) = &step {
                if let (Some("remove"), End::Run(program)) = (action, &self.ends[place]) {
                    rollover.await_status(program).await?;
                }
                self.ends[place].put(&rollover.text(&step.file)?).await?;
                let now = self.now(ahead).await? - behind(place, ahead);
                ensure!(step.until.is_none_or(|until| now < until), "{} was too late", step.file);
            }
            // From now on, this end asks for the new key.
            if matches!(action, None | Some("prefer")) {
                await_new(1 - place).await?;
            }
        }
        await_new(NORTH).await?;
        await_new(SOUTH).await?;
        for (place, end) in self.ends.iter().enumerate() {
            match end {
                End::Bird(bird) => {
                    let State { current_key, rnext_key, .. } = bird.state(Family::Ipv4).await?;
                    let [send, recv] = [rollover.new_key(place)?, rollover.new_key(1 - place)?];
                    ensure!(
                        (current_key, rnext_key) == (Some(send.0), Some(recv.0)),
                        "BIRD has {current_key:?} and {rnext_key:?}"
                    );
                }
                End::Run(program) => {
                    // From each session and from both listeners.
                    let old = &rollover.plan["ends"][place]["old"][0]["send_id"];
                    program
                        .await_log(&format!("delete the key with SendID {old} "), self.sessions + 2)
                        .await?;
                }
            }
        }
        Ok(())
    }

    /// Ends both, and what their kernels would still send; returns the logs of the supervisors.
    async fn stop(self) -> Result<Vec<String>> {
        let mut logs = Vec::new();
        for end in self.ends {
            match end {
                End::Bird(bird) => bird.stop_alone().await?,
                End::Run(program) => logs.push(program.stop().await?),
            }
        }
        Daemon::Frr.end(self.south).await?;
        tokio::try_join!(await_no_sockets(&self.lab.north), await_no_sockets(self.south))?;
        Ok(logs)
    }
}

fn mkts(keys: &str) -> Result<Vec<Mkt>> {
    let chains = KeyChains::from_toml(keys)?;
    Ok(chains.chains().iter().flat_map(|chain| chain.keys()).map(|key| key.mkt().clone()).collect())
}

async fn run(lab: &Lab, has_bird: bool) -> Result<Evidence> {
    let south = lab.south().await?;
    let before = Both::of(&lab.north, south).await?;
    let mut ends = Ends::start(lab, has_bird).await?;
    let session = ends.await_routes().await?;
    // A supervisor needs up to a second to find a session.
    sleep(Duration::from_secs(2)).await;
    let mut keys = mkts(KEYS)?;
    let mut now = FIRST;
    for (ahead, algorithm) in ALGORITHMS.into_iter().enumerate() {
        now += DAY;
        ends.pass_to(ahead, now).await?;
        let rollover = ends.plan(now, algorithm)?;
        tokio::select! {
            followed = ends.follow(&rollover, ahead) => followed,
            failed = ends.send_routes() => failed,
        }
        .with_context(|| format!("the rollover to {algorithm}"))?;
        for (place, file) in ends.files.iter_mut().enumerate() {
            let last = rollover.steps(place)?.pop().context("there are steps")?;
            *file = rollover.text(&last.file)?;
        }
        let [key] = &mkts(&ends.files[SOUTH])?[..] else { bail!("the last file has another number of keys") };
        keys.push(key.clone());
    }
    let now = ends.await_routes().await?;
    ensure!(session == now, "the session was {session:?}, and is {now:?}");
    let counted = before.good().await?;
    for log in ends.stop().await? {
        ensure!(!log.contains("was still asking"), "a peer was still asking for an old key: {log}");
    }
    let evidence =
        evidence(lab, &keys, &[("north's kernel", counted[NORTH]), ("south's kernel", counted[SOUTH])], 0.0)?;
    let by_key = format!("segments by key: {:?}", evidence.wire.by_key);
    ensure!(evidence.wire.by_key.len() == 2 * keys.len(), "{by_key}");
    Ok(evidence.with_figures(by_key))
}

async fn twin(lab: &Lab, has_bird: bool) -> Result<Refusal> {
    let south = lab.south().await?;
    let ends = Ends::start(lab, has_bird).await?;
    ends.await_routes().await?;
    let rollover = ends.plan(FIRST + DAY, ALGORITHMS[0])?;
    let gaps = rollover.delay_first_step(SOUTH)?;
    let before = Both::of(&lab.north, south).await?;
    for (moment, _, step) in rollover.events(NORTH)?.into_iter().filter(|(_, place, _)| *place == NORTH) {
        ends.pass_to(NORTH, moment).await?;
        if let Some(step) = step {
            ends.ends[NORTH].put(&rollover.text(&step.file)?).await?;
        }
    }
    let lost = before.refused(Counted::key_not_found(1)).await?;
    ends.stop().await?;
    Ok(Refusal::of("keys roll --check: gaps", gaps as u64).and(lost))
}
