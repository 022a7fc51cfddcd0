//! Prints the costs.

use crate::measure::Cost;

/// One line of the table.
pub(crate) struct Row {
    title: String,
    cost: Cost,
    /// How many bytes it was about.
    bytes: Option<u64>,
}

impl Row {
    pub(crate) fn new(title: &str, cost: Cost) -> Self {
        Self { title: title.to_owned(), cost, bytes: None }
    }

    /// Adds the speed over this many bytes.
    pub(crate) fn over(self, bytes: u64) -> Self {
        Self { bytes: Some(bytes), ..self }
    }
}

pub(crate) fn print_head() {
    println!(
        "{:<44} {:>8} {:>8} {:>8} {:>9} {:>9} {:>7}",
        "work", "wall, s", "CPU, s", "peak MB", "read MB", "written", "MB/s"
    );
}

pub(crate) fn print_row(row: &Row) {
    let Cost { wall, cpu, peak, read, written } = row.cost;
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let speed = row
        .bytes
        .map_or(String::new(), |bytes| format!("{:.0}", megabytes(bytes) / wall.as_secs_f64()));
    println!(
        "{:<44} {:>8.3} {:>8.3} {:>8.0} {:>9.1} {:>9.1} {speed:>7}",
        row.title,
        wall.as_secs_f64(),
        cpu.as_secs_f64(),
        megabytes(peak),
        megabytes(read),
        megabytes(written),
    );
}

pub(crate) fn print_ratio(title: &str, ratio: f64) {
    println!("    {title:<52} {ratio:>8.2}");
}
