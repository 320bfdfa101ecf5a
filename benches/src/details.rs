//! Tables without goals: all contenders side by side, including Wireseal's layers.

use std::cell::RefCell;
use std::hint::black_box;

use crate::contenders::mac;
use crate::contenders::quic::{self, MaskContender, PAYLOADS, PacketContender};
use crate::contenders::segment::{self, Established, LENGTH};
use wireseal_algorithms::{AeadAlgorithm, MacAlgorithm, TcpAoAlgorithm};
use wireseal_mac::{MacKey, MessageHead};
use wireseal_quic::{Keys, OneRtt};
use wireseal_tcp_ao::shim::ShimSlot;
use wireseal_tcp_ao::{Connection, FieldName, OptionCoverage, Segment, Sne, TrafficKey};

use crate::table::{Cell, Table};
use crate::timing::{Effort, Timed, alternate};

/// The length of the first of two slices: whole blocks for every MAC but KMAC.
const FIRST_SLICE: usize = 128;

type Rows = Vec<(String, Vec<(String, f64)>)>;

/// Nanoseconds of the first contender in each row; for the others, the ratio to it.
fn table(name: &'static str, title: &str, rows: Rows) -> Table {
    let mut names: Vec<String> = Vec::new();
    for (contender, _) in rows.iter().flat_map(|(_, times)| times) {
        if !names.contains(contender) {
            names.push(contender.clone());
        }
    }
    let mut table = Table::new(name, title, ["of".to_owned()].into_iter().chain(names.clone()));
    for (of, times) in rows {
        let first = times.first().map_or(f64::NAN, |(_, time)| *time);
        let cells = names.iter().enumerate().map(|(place, name)| {
            let found = times.iter().find(|(contender, _)| contender == name);
            Cell::or_none(
                found,
                |(_, time)| if place == 0 { Cell::ns(*time) } else { Cell::ratio(time / first) },
            )
        });
        table.rows.push([Cell::text(of)].into_iter().chain(cells).collect());
    }
    table.reading =
        "The first column has nanoseconds, the others how many times as long they take.".to_owned();
    table
}

fn row(effort: Effort, of: String, timed: &mut [Timed<'_>]) -> (String, Vec<(String, f64)>) {
    let times = alternate(effort, timed);
    (of, timed.iter().map(|timed| timed.name.to_owned()).zip(times).collect())
}

pub(crate) fn macs(effort: Effort) -> Table {
    let mut rows = Rows::new();
    for algorithm in MacAlgorithm::ALL {
        let mut contenders = mac::contenders(algorithm);
        for length in [64, 164, 256, 1024, 1500] {
            let message = vec![0x5a; length];
            let mut timed: Vec<Timed<'_>> = contenders
                .iter_mut()
                .map(|(name, contender)| {
                    Timed::new(name, || {
                        black_box(contender(&[black_box(&message)]));
                    })
                })
                .collect();
            rows.push(row(effort.share(3), format!("{}, {length} octets", algorithm.name()), &mut timed));
        }
    }
    table("mac", "MAC over one slice, with a prepared key", rows)
}

pub(crate) fn segments(effort: Effort) -> Table {
    let rows = TcpAoAlgorithm::ALL.into_iter().map(|algorithm| {
        let ends = segment::established(algorithm, LENGTH);
        let (input, signed) = (ends.mac_input(), ends.tcp.clone());
        let key = TrafficKey::new(&segment::traffic_key(algorithm, ends.sender.pair()));
        let bare = key.mac_key().mac(&[&input]);
        assert!(bare.as_bytes().starts_with(&ends.mac()), "the octets are those that were signed");
        let Established { mut sender, mut receiver, tcp } = ends;
        let (source, destination) = (sender.pair().local.address(), sender.pair().remote.address());
        let view = Segment::from_tcp(source, destination, &signed).expect("well-formed");
        let parsed = view.mac_input(Sne(0), OptionCoverage::Covered).expect("signed");
        // Many copies, so that signing one does not wait for the result of the round before.
        let (mut copies, mut turn) = (vec![tcp; 64], 0);
        let mut timed = [
            Timed::new("bare MAC", || drop(black_box(key.mac_key().mac(&[black_box(&input)])))),
            Timed::new("in two slices", || {
                let (start, rest) = black_box(&input).split_at(FIRST_SLICE);
                drop(black_box(key.mac_key().mac(&[start, rest])));
            }),
            Timed::new("head by blocks", || {
                drop(black_box(key.mac_key().mac(&black_box(&parsed).message(&mut MessageHead::new()))));
            }),
            Timed::new("head by fields", || {
                let mut head = MessageHead::new();
                let fields = black_box(&parsed).fields();
                let head = head.concatenate(fields.filter(|field| field.name != FieldName::Payload));
                drop(black_box(key.mac_key().mac(&[head, view.payload()])));
            }),
            Timed::new("sign", || {
                turn = (turn + 1) % copies.len();
                sender.sign(black_box(&mut copies[turn])).expect("established");
            }),
            Timed::new("verify", || {
                let segment =
                    Segment::from_tcp(source, destination, black_box(&signed)).expect("well-formed");
                receiver.verify(&segment).map(drop).expect("signed");
            }),
        ];
        row(effort, algorithm.to_string(), &mut timed)
    });
    let title = "A TCP segment of 128 octets after its header (164 to hash), over IPv4: the bare MAC on the same octets, in one slice and in two; the MAC of a segment whose head is written block by block or field by field; and the segment layer";
    table("segment", title, rows.collect())
}

pub(crate) fn connections(effort: Effort) -> Table {
    let rows = TcpAoAlgorithm::ALL.into_iter().map(|algorithm| {
        let pair = segment::pair(0);
        let (source, destination) = (pair.local.address(), pair.remote.address());
        let mkt = segment::mkt(algorithm, 1);
        let context = segment::kdf_context(pair);
        let state = segment::established(algorithm, LENGTH).sender.export().expect("established");
        let mkts = segment::mkts(algorithm);
        let syn = segment::syn(algorithm, &mkts);
        let mut forged = syn.clone();
        *forged.last_mut().expect("not empty") ^= 1;
        let parse = |tcp| Segment::from_tcp(source, destination, tcp).expect("well-formed");
        let (good, forged) = (parse(&syn), parse(&forged));
        assert!(mkts.verify_syn(good).is_ok() && mkts.verify_syn(forged).is_err());
        let mut timed = [
            Timed::new("one key", || {
                drop(black_box(TrafficKey::derive(&mkt, black_box(&context))));
            }),
            Timed::new("whole connection, two MKTs", || drop(black_box(Connection::import(&state, &mkts)))),
            Timed::new("good SYN", || assert!(mkts.verify_syn(black_box(good)).is_ok())),
            Timed::new("forged SYN", || assert!(mkts.verify_syn(black_box(forged)).is_err())),
        ];
        row(effort, algorithm.to_string(), &mut timed)
    });
    let title = "Per connection and per SYN: deriving a traffic key and preparing its MAC";
    table("connection", title, rows.collect())
}

pub(crate) fn seal(effort: Effort) -> Table {
    let title = "Sealing a QUIC packet: number, AEAD and header mask; octets of payload";
    table("seal", title, packets(effort, true))
}

pub(crate) fn open(effort: Effort) -> Table {
    let title = "Copying a QUIC packet and opening it: header mask, number and AEAD; octets of payload";
    table("open", title, packets(effort, false))
}

/// What sealing would save if it read the payload from where it lies: at most the copying.
pub(crate) fn slices(effort: Effort) -> Table {
    let mut rows = Rows::new();
    for algorithm in AeadAlgorithm::ALL {
        let mut contender = quic::packet_contenders(algorithm).swap_remove(0);
        for payload in PAYLOADS {
            let source = vec![0x5a; payload];
            let packet = RefCell::new(quic::packet(payload));
            let seal = RefCell::new(&mut contender.seal);
            let copied = |slices: usize| {
                let mut packet = packet.borrow_mut();
                let start = packet.len() - 16 - payload;
                let parts = black_box(&source).chunks(payload.div_ceil(slices));
                let mut to = &mut packet[start..];
                for part in parts {
                    to.split_off_mut(..part.len()).expect("room for the payload").copy_from_slice(part);
                }
                (seal.borrow_mut())(black_box(&mut packet));
            };
            let mut timed = [
                Timed::new("in place", || (seal.borrow_mut())(black_box(&mut packet.borrow_mut()))),
                Timed::new("copied first", || copied(1)),
                Timed::new("from 8 slices", || copied(8)),
            ];
            rows.push(row(effort.share(3), format!("{algorithm}, {payload} octets"), &mut timed));
        }
    }
    let title =
        "Sealing a QUIC packet whose payload lies in it already, or is copied there from one slice or eight";
    table("slices", title, rows)
}

fn packets(effort: Effort, is_sealing: bool) -> Rows {
    let mut rows = Rows::new();
    for algorithm in AeadAlgorithm::ALL {
        let mut contenders = quic::packet_contenders(algorithm);
        for payload in PAYLOADS {
            let mut sealed = quic::packet(payload);
            (contenders[0].seal)(&mut sealed);
            // One buffer for all: its address changes the time by some percent.
            let packet = RefCell::new(sealed.clone());
            let (packet, sealed) = (&packet, &sealed);
            let mut timed: Vec<Timed<'_>> = contenders
                .iter_mut()
                .map(|PacketContender { name, seal, open }| {
                    if is_sealing {
                        return Timed::new(name, move || seal(black_box(&mut packet.borrow_mut())));
                    }
                    Timed::new(name, move || {
                        packet.borrow_mut().copy_from_slice(sealed);
                        assert!(open(black_box(&mut packet.borrow_mut())));
                    })
                })
                .collect();
            rows.push(row(effort.share(3), format!("{algorithm}, {payload} octets"), &mut timed));
        }
    }
    rows
}

pub(crate) fn masks(effort: Effort) -> Table {
    let mut rows = Rows::new();
    for algorithm in AeadAlgorithm::ALL {
        let mut contenders = quic::mask_contenders(algorithm);
        for count in [1, 16] {
            let samples: Vec<[u8; 16]> = (0..count).map(|i| [i; 16]).collect();
            let mut timed: Vec<Timed<'_>> = contenders
                .iter_mut()
                .map(|MaskContender { name, masks }| {
                    let mut made = vec![[0; 5]; samples.len()];
                    let samples = &samples;
                    Timed::new(name, move || masks(black_box(samples), black_box(&mut made)))
                })
                .collect();
            rows.push(row(effort, format!("{algorithm}, {count} at once"), &mut timed));
        }
    }
    table("masks", "QUIC header masks alone", rows)
}

pub(crate) fn initial(effort: Effort) -> Table {
    let contenders = quic::initial_contenders();
    let mut timed: Vec<Timed<'_>> = contenders
        .iter()
        .map(|contender| Timed::new(contender.name, || (contender.set_up)(black_box(&[0x5a; 8]))))
        .collect();
    let title = "QUIC Initial keys of both directions from a connection ID, derived and dropped";
    table("initial", title, vec![row(effort, "Initial keys".to_owned(), &mut timed)])
}

pub(crate) fn sizes(_: Effort) -> Table {
    let sizes = [
        ("MAC key of any algorithm", size_of::<MacKey>()),
        ("connection with room for two MKTs", size_of::<Connection<2>>()),
        ("connection with room for four MKTs", size_of::<Connection<4>>()),
        ("place in a shim's table", size_of::<ShimSlot>()),
        ("QUIC keys of one level and direction", size_of::<Keys>()),
        ("QUIC 1-RTT keys of both directions, current and next", size_of::<OneRtt>()),
    ];
    let mut table = Table::new("sizes", "Sizes in octets, with nothing on the heap", ["what", "octets"]);
    table.rows =
        sizes.iter().map(|(what, size)| vec![Cell::text(*what), Cell::Count(*size as u64)]).collect();
    table
}
