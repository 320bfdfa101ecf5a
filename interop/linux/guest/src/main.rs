//! The agent in a guest: does what the driver asks for, each request in a thread of its own.

mod options;
mod provoke;
mod sockets;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde::Serialize;
use serde_json::Value;
use wireseal_interop_linux_guest::{Counted, Message, PORT, Reply, Request, TIME_LIMIT};
use wireseal_tcp_ao::Isn;

use crate::sockets::{Managers, Sockets};

/// How often the kernel's counters are read while something waits for them.
const COUNTERS_CHECK: Duration = Duration::from_millis(2);

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("guest: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> io::Result<()> {
    let port = OpenOptions::new().read(true).write(true).open(PORT)?;
    let output = Arc::new(Mutex::new(port.try_clone()?));
    let agent = Arc::new(Agent::default());
    reply(&output, 0, value(kernel()))?;
    for line in BufReader::new(port).lines() {
        let Message { id, request } = serde_json::from_str(&line?)?;
        let (agent, output) = (Arc::clone(&agent), Arc::clone(&output));
        thread::spawn(move || {
            let result = agent.answer(request);
            if let Err(error) = reply(&output, id, result) {
                eprintln!("guest: cannot answer: {error}");
            }
        });
    }
    Ok(())
}

fn reply(output: &Mutex<File>, id: u64, result: Result<Value, String>) -> io::Result<()> {
    let mut line = serde_json::to_vec(&Reply { id, result })?;
    line.push(b'\n');
    output.lock().unwrap().write_all(&line)
}

#[derive(Default)]
struct Agent {
    sockets: Sockets,
    managers: Managers,
}

impl Agent {
    fn answer(&self, request: Request) -> Result<Value, String> {
        let Self { sockets, managers } = self;
        match request {
            Request::Run(run) => value(shell(&run.line)),
            Request::WriteFile(file) => value(fs::write(file.path, file.contents)),
            Request::Open(open) => value(sockets.open(&open)),
            Request::BindDevice(bind) => value(sockets.bind_device(&bind)),
            Request::Listen(listen) => value(sockets.listen(listen.socket)),
            Request::Accept(accept) => value(sockets.accept(accept.socket)),
            Request::TryAccept(accept) => value(sockets.try_accept(accept.socket)),
            Request::Connect(connect) => value(sockets.connect(&connect)),
            Request::Transfer(transfer) => value(sockets.transfer(&transfer)),
            Request::Finish(finish) => value(sockets.finish(finish.socket)),
            Request::Close(close) => value(sockets.close(close.socket)),
            Request::Reset(reset) => value(sockets.reset(reset.socket)),
            Request::ResetAll(_) => {
                managers.detach_all();
                value(sockets.reset_all())
            }
            Request::AddKeys(add) => value(sockets.add_keys(&add)),
            Request::AddPeers(add) => value(sockets.add_peers(&add)),
            Request::DeletePeers(delete) => value(sockets.delete_peers(&delete)),
            Request::DeleteKey(delete) => value(sockets.delete_key(&delete)),
            Request::SetKeys(set) => value(sockets.set_keys(&set)),
            Request::SetFlags(set) => value(sockets.set_flags(&set)),
            Request::ReportErrors(report) => value(sockets.report_errors(report.socket)),
            Request::SetMd5Key(set) => value(sockets.set_md5_key(&set)),
            Request::ListKeys(list) => value(sockets.list_keys(list.socket)),
            Request::CountKeys(count) => value(sockets.count_keys(count.socket)),
            Request::CallOption(call) => {
                value(sockets.get(call.socket).and_then(|socket| options::call(&socket, &call)))
            }
            Request::GetInfo(get) => value(sockets.info(get.socket)),
            Request::Export(export) => value(sockets.export(export.socket)),
            Request::Restore(restore) => value(sockets.restore(restore)),
            Request::GetCounters(_) => value(counters()),
            Request::AwaitCounters(wait) => value(await_counters(&wait.at_least)),
            Request::ChooseIsn(choose) => value(sockets.choose_isn(choose.socket, Isn(choose.isn))),
            Request::NewManager(new) => value(managers.add(&new)),
            Request::Attach(attach) => value(managers.attach(sockets, &attach)),
            Request::Manage(manage) => value(managers.manage(sockets, &manage)),
            Request::AcceptManaged(accept) => value(managers.accept(sockets, accept.socket)),
            Request::ConnectFrom(connect) => value(managers.connect_from(sockets, &connect)),
            Request::Detach(detach) => value(managers.detach(detach.socket)),
            Request::Step(step) => value(managers.step(&step)),
            Request::SetPeers(set) => value(managers.set_peers(&set)),
            Request::ProvokeErrors(provoke) => {
                value(sockets.get(provoke.connection).and_then(|connection| provoke::provoke(&connection)))
            }
        }
    }
}

fn value<T: Serialize, E: Into<anyhow::Error>>(result: Result<T, E>) -> Result<Value, String> {
    let answer = result.map_err(Into::into).and_then(|answer| Ok(serde_json::to_value(answer)?));
    answer.map_err(|error| format!("{error:#}"))
}

/// The kernel's release, and whether it has TCP-AO.
fn kernel() -> anyhow::Result<(String, bool)> {
    let support = wireseal_linux::probe()?;
    Ok((support.kernel, support.tcp_ao))
}

fn shell(line: &str) -> anyhow::Result<String> {
    let Output { status, stdout, stderr } =
        Command::new("sh").args(["-c", line]).stdin(Stdio::null()).output()?;
    let [output, errors] = [stdout, stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    ensure!(status.success(), "{line}: {output}{errors}");
    Ok(output)
}

fn counters() -> io::Result<Counted> {
    let counters = wireseal_linux::NetworkCounters::read()?;
    Ok(Counted {
        md5_not_found: counters.md5_not_found,
        md5_unexpected: counters.md5_unexpected,
        md5_failure: counters.md5_failure,
        ..counters.tcp_ao.into()
    })
}

fn await_counters(at_least: &Counted) -> anyhow::Result<Counted> {
    let until = Instant::now() + TIME_LIMIT;
    loop {
        let counters = counters()?;
        if counters.has_reached(at_least) {
            return Ok(counters);
        }
        ensure!(Instant::now() < until, "the kernel has counted {counters} instead of {at_least}");
        thread::sleep(COUNTERS_CHECK);
    }
}
