//! The table, and the ratios that the documentation claims.

use crate::child::Measured;

/// Prints the table's head.
pub(crate) fn print_head() {
    println!("CPU time of one thread; peak memory of the process (Linux), the file included\n");
    println!("{:<34} {:>8} {:>8} {:>10} {:>10}", "loader", "MB", "MB/s", "peak MB", "blocks");
}

/// Prints what a loader did with a file of `bytes`.
pub(crate) fn print_row(title: &str, bytes: u64, row: &Measured) {
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
fn speed(bytes: u64, row: &Measured) -> f64 {
    bytes as f64 / 1e6 / (row.nanoseconds as f64 / 1e9)
}

/// What the documentation claims, as ratios of this run.
#[derive(Default)]
pub(crate) struct Claims {
    /// Speeds of the loaders of a transcript, by size.
    sizes: Vec<Vec<f64>>,
}

impl Claims {
    /// Adds the rows of one size: ours, `Value` to state, `Value` only.
    pub(crate) fn add(&mut self, bytes: u64, rows: &[Measured]) {
        self.sizes.push(rows.iter().map(|row| speed(bytes, row)).collect());
    }

    pub(crate) fn print(&self) {
        let [small, large] = self.sizes.as_slice() else { return };
        println!("\nratios of this run");
        let rows = [
            ("ours / `Value` to state, 20 MB", small[0] / small[1], "at least 1.3"),
            ("ours / `Value` to state, 200 MB", large[0] / large[1], "at least 1.3"),
            ("ours / `Value` only parsed, 200 MB", large[0] / large[2], ""),
            ("ours at 200 MB / at 20 MB", large[0] / small[0], "0.9 to 1.1"),
        ];
        for (name, ratio, bar) in rows {
            let bar = if bar.is_empty() { String::new() } else { format!("   wanted: {bar}") };
            println!("  {name:<36} {ratio:>8.2}{bar}");
        }
    }
}
