//! The table, and the ratios that the documentation claims.

use crate::child::Measurement;

/// Prints the table's head.
pub(crate) fn print_head() {
    println!("CPU time of one thread; peak memory of the process (Linux), the file included\n");
    println!("{:<34} {:>8} {:>8} {:>10} {:>10}", "loader", "MB", "MB/s", "peak MB", "blocks");
}

/// Prints what a loader did with a file of `bytes`.
pub(crate) fn print_row(title: &str, bytes: u64, row: &Measurement) {
    let peak = row.peak.map_or("–".to_owned(), |peak| format!("{:.0}", peak as f64 / 1e6));
    let blocks = match row.blocks.values().sum::<usize>() {
        0 => "–".to_owned(),
        blocks => blocks.to_string(),
    };
    println!(
        "{title:<34} {:>8.1} {:>8.0} {peak:>10} {blocks:>10}",
        bytes as f64 / 1e6,
        speed(bytes, row)
    );
}

/// Returns megabytes a second.
fn speed(bytes: u64, row: &Measurement) -> f64 {
    bytes as f64 / 1e6 / (row.nanoseconds as f64 / 1e9)
}

/// Returns megabytes a second of each row of a file of `bytes`.
pub(crate) fn speeds(bytes: u64, rows: &[Measurement]) -> Vec<f64> {
    rows.iter().map(|row| speed(bytes, row)).collect()
}

/// Prints what the documentation claims, as ratios of this run.
///
/// Given are the speeds at 20 and 200 MB: ours, `Value` to state, `Value` kept, `Value` only, typed.
pub(crate) fn print_claims(small: &[f64], large: &[f64]) {
    println!("\nratios of this run");
    let rows = [
        ("ours / `Value` to state, 20 MB", small[0] / small[1], "   wanted: at least 1.3"),
        ("ours / `Value` to state, 200 MB", large[0] / large[1], "   wanted: at least 1.3"),
        ("ours / `Value` parsed and kept, 200 MB", large[0] / large[2], ""),
        ("ours / `Value` only parsed, 200 MB", large[0] / large[3], ""),
        ("ours / typed and mutable, 20 MB", small[0] / small[4], "   wanted: at least 0.7"),
        ("ours / typed and mutable, 200 MB", large[0] / large[4], "   wanted: at least 0.7"),
        ("ours at 200 MB / at 20 MB", large[0] / small[0], "   wanted: 0.9 to 1.1"),
    ];
    print_ratios(&rows);
}

/// The same for events of OpenCode at 20 and 100 MB: ours, `Value` to state.
pub(crate) fn print_bus_claims(name: &str, small: &[f64], large: &[f64]) {
    let names = ["ours / `Value`, 20 MB", "ours / `Value`, 100 MB", "ours at 100 MB / at 20 MB"]
        .map(|ratio| format!("{name}: {ratio}"));
    print_ratios(&[
        (&names[0], small[0] / small[1], "   wanted: at least 1.3"),
        (&names[1], large[0] / large[1], "   wanted: at least 1.3"),
        (&names[2], large[0] / small[0], "   wanted: at least 0.85"),
    ]);
}

/// The same for a rollout of Codex at 20 and 100 MB: ours, `Value` to state.
pub(crate) fn print_rollout_claims(small: &[f64], large: &[f64]) {
    print_ratios(&[
        ("rollout: ours / `Value`, 20 MB", small[0] / small[1], "   wanted: at least 1.5"),
        ("rollout: ours / `Value`, 100 MB", large[0] / large[1], "   wanted: at least 1.5"),
        ("rollout: ours at 100 MB / at 20 MB", large[0] / small[0], "   wanted: at least 0.85"),
    ]);
}

fn print_ratios(rows: &[(&str, f64, &str)]) {
    for (name, ratio, bar) in rows {
        println!("  {name:<40} {ratio:>8.2}{bar}");
    }
}
