//! One client that does not read, among others that do.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use crate::scenario::{Bar, Run, memory, print_bar};

/// How much is measured.
pub(crate) struct SlowScale {
    pub(crate) clients: usize,
    pub(crate) events: u64,
    pub(crate) rounds: usize,
}

const EVENT: usize = 30 << 10;
const MIB: f64 = 1024.0 * 1024.0;

/// What one run showed.
struct SlowFigures {
    p50: f64,
    p99: f64,
    grown: f64,
    held: f64,
}

pub(crate) fn run(scale: &SlowScale) -> io::Result<bool> {
    let SlowScale { clients, events, rounds } = scale;
    println!("{clients} clients of one session, {events} events of 30 KiB");
    println!("{:<12} {:>8} {:>8} {:>12} {:>14}", "", "p50 ms", "p99 ms", "grown MB", "held KiB");
    let (mut ratios, mut grown, mut held) = (Vec::new(), 0_f64, 0_f64);
    for _ in 0..*rounds {
        let all = measure(scale, 0)?;
        print_figures("all read", &all);
        let one = measure(scale, 1)?;
        print_figures("one stalled", &one);
        ratios.push(one.p99 / all.p99);
        grown = grown.max(one.grown);
        held = held.max(one.held);
    }
    ratios.sort_by(f64::total_cmp);
    let ratio = ratios[ratios.len() / 2];
    let is_fair = print_bar("p99 of the others, stalled / none, median", ratio, 2.0, Bar::AtMost);
    let is_small = print_bar("most that the server grew, MB", grown, 16.0, Bar::AtMost);
    let is_bounded = print_bar("most held for one client, MiB", held, 1.0, Bar::AtMost);
    Ok(is_fair && is_small && is_bounded)
}

fn print_figures(title: &str, figures: &SlowFigures) {
    let SlowFigures { p50, p99, grown, held } = figures;
    println!("{title:<12} {p50:>8.2} {p99:>8.2} {grown:>12.1} {:>14.0}", held * 1024.0);
}

fn measure(scale: &SlowScale, stalled: usize) -> io::Result<SlowFigures> {
    let mut run = Run::start("ours", 1, scale.clients, stalled, 1, EVENT)?;
    let before = memory(&mut run.server)?;
    let reading = (scale.clients - stalled) as u64;
    let (p50, p99) = run.take_turns(scale.events, scale.events * reading)?;
    let grown = memory(&mut run.server)?.saturating_sub(before) as f64 / 1e6;
    let held = held(&run.address)? / MIB;
    Ok(SlowFigures { p50, p99, grown, held })
}

/// Returns the most bytes that the server held for one client.
fn held(address: &str) -> io::Result<f64> {
    let mut stream = TcpStream::connect(address)?;
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let value = answer.lines().find_map(|it| it.strip_prefix("threadfold_pending_bytes_max "));
    let value = value.and_then(|it| it.trim().parse().ok());
    value.ok_or_else(|| io::Error::other(format!("no `pending_bytes_max`: {answer}")))
}
