//! Captures that are still being recorded, on standard input: what is found is written as soon as the packet is there.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::support::program::program;
use crate::support::session::{IPV4_KEY, IPV4_SESSION, Recorded, Session, recorded, session};

/// The program, reading from a pipe.
struct Stream {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Stream {
    fn new(arguments: &[&str]) -> Self {
        let mut command = program();
        command.args(["verify", "-", "--key", IPV4_KEY]).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || output.lines().try_for_each(|line| sender.send(line.unwrap())));
        Self { child, input, lines }
    }

    fn write(&mut self, octets: &[u8]) {
        self.input.write_all(octets).unwrap();
    }

    /// Waits for a line that begins like this.
    #[track_caller]
    fn wait_for(&self, start: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(Duration::from_secs(60)).expect(start);
            if line.starts_with(start) {
                return line;
            }
        }
    }

    /// Closes the pipe and waits for the exit code.
    fn finish(self) -> i32 {
        let Self { mut child, input, lines } = self;
        drop(input);
        while lines.recv_timeout(Duration::from_secs(60)) != Err(RecvTimeoutError::Disconnected) {}
        child.wait().unwrap().code().unwrap()
    }
}

fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// LINKTYPE_RAW.
const RAW: u32 = 101;

/// The header of a pcap file with nanoseconds, and a record.
fn pcap_header() -> Vec<u8> {
    words(&[0xa1b2_3c4d, 4 << 16 | 2, 0, 0, 262_144, RAW])
}

fn pcap_record((time, packet): &Recorded) -> Vec<u8> {
    let length = packet.len() as u32;
    let time = [(time / 1_000_000_000) as u32, (time % 1_000_000_000) as u32];
    [words(&[time[0], time[1], length, length]), packet.clone()].concat()
}

/// A section with an interface, and an Enhanced Packet Block.
fn pcapng_header() -> Vec<u8> {
    let section = words(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28]);
    [section, words(&[1, 20, RAW, 0, 20])].concat()
}

fn pcapng_block((time, packet): &Recorded) -> Vec<u8> {
    let (length, microseconds) = (packet.len() as u32, time / 1000);
    let total = 32 + length.next_multiple_of(4);
    let head = [6, total, 0, (microseconds >> 32) as u32, microseconds as u32, length, length];
    let mut block = [words(&head), packet.clone()].concat();
    block.resize(total as usize - 4, 0);
    [block, words(&[total])].concat()
}

/// The verdict on each packet comes before the next one is written, even if a part of that is there.
fn judged_one_by_one(pieces: &[Vec<u8>], first: usize) {
    let mut stream = Stream::new(&["--segments"]);
    for piece in &pieces[..first] {
        stream.write(piece);
    }
    let mut written = 0;
    for (place, piece) in pieces[first..].iter().enumerate() {
        stream.write(&piece[written..]);
        if let Some(next) = pieces.get(first + place + 1) {
            written = next.len().min(11);
            stream.write(&next[..written]);
        }
        let line = stream.wait_for(&format!("#{} ", place + 1));
        assert!(line.ends_with(" good"), "{line}");
    }
    assert_eq!(stream.finish(), 0);
}

#[test]
fn a_segment_is_judged_before_the_next_one_comes() {
    let packets = recorded(IPV4_SESSION);
    let pcap: Vec<_> = [pcap_header()].into_iter().chain(packets.iter().map(pcap_record)).collect();
    judged_one_by_one(&pcap, 1);
    let pcapng: Vec<_> = [pcapng_header()].into_iter().chain(packets.iter().map(pcapng_block)).collect();
    judged_one_by_one(&pcapng, 1);
    // Blocks that are no packets in between.
    let statistics = words(&[5, 24, 0, 0, 0, 24]);
    let with_others = packets.iter().map(|packet| [pcapng_block(packet), statistics.clone()].concat());
    let pcapng: Vec<_> = [pcapng_header()].into_iter().chain(with_others).collect();
    judged_one_by_one(&pcapng, 1);
}

/// As far as the program that compresses passes its octets on.
#[test]
fn compressed_segments_are_judged_when_they_are_flushed() {
    let packets = recorded(IPV4_SESSION);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let mut pieces = Vec::new();
    let plain = [pcap_header()].into_iter().chain(packets.iter().map(pcap_record));
    for piece in plain {
        encoder.write_all(&piece).unwrap();
        encoder.flush().unwrap();
        pieces.push(std::mem::take(encoder.get_mut()));
    }
    let mut stream = Stream::new(&["--segments"]);
    stream.write(&pieces[0]);
    for (number, piece) in (1..).zip(&pieces[1..]) {
        stream.write(piece);
        stream.wait_for(&format!("#{number} "));
    }
    stream.write(&encoder.finish().unwrap());
    assert_eq!(stream.finish(), 0);
}

#[test]
fn a_connection_is_reported_as_soon_as_it_is_over() {
    let mut first = session();
    first.close();
    let mut second = Session::usual([7, 8]);
    second.ends[0] = wireseal_tcp_ao::Endpoint::new([192, 0, 2, 9], 50_001);
    // A closed connection is remembered for another minute.
    second.time = first.time + 60_000_000_000;
    second.shake_hands();
    let (syn, rest) = second.packets.split_first().unwrap();
    for (arguments, start) in
        [(["--all"], "connection 1: "), (["--json-lines"], "{\"type\":\"connection\",\"number\":1,")]
    {
        let mut stream = Stream::new(&arguments);
        stream.write(&pcap_header());
        for packet in first.packets.iter().chain([syn]) {
            stream.write(&pcap_record(packet));
        }
        stream.wait_for(start);
        for packet in rest {
            stream.write(&pcap_record(packet));
        }
        assert_eq!(stream.finish(), 0);
    }
}
