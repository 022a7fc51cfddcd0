//! Repeatedly kills a store's process, and cuts the power of its disk.
//!
//! `crash store --kills N --cuts M`: exit code 0 if no acknowledged write was lost, otherwise 1.

use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use threadfold_testkit::store_crash::{Control, can_cut, child, cut_power, kill};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["child", path, writers] => run_child(path, writers, "none", Control::No),
        ["child", path, writers, "--unsynced"] => {
            run_child(path, writers, "none", Control::Unsynced)
        }
        ["child", path, writers, appends] => run_child(path, writers, appends, Control::No),
        ["store", "--kills", kills, "--cuts", cuts] => run_store(kills, cuts),
        _ => Err("`crash store --kills N --cuts M` was wanted".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run_child(path: &str, writers: &str, appends: &str, control: Control) -> Result<(), BoxError> {
    let appends = if appends == "none" { u64::MAX } else { appends.parse()? };
    child(Path::new(path), writers.parse()?, appends, control)
}

fn run_store(kills: &str, cuts: &str) -> Result<(), BoxError> {
    let (kills, cuts): (u64, u64) = (kills.parse()?, cuts.parse()?);
    let seed = u64::from(SystemTime::now().duration_since(UNIX_EPOCH)?.subsec_nanos());
    let program = std::env::current_exe()?;
    if kills > 0 {
        let folder = tempfile::tempdir()?;
        let sum = kill(&program, &folder.path().join("store.db"), kills, seed)?;
        println!(
            "{} kills, {} appends acknowledged, {} records: nothing lost; opened in {:?} at most",
            sum.kills, sum.acknowledged, sum.records, sum.slowest_opening
        );
    }
    if cuts == 0 {
        return Ok(());
    }
    if let Err(error) = can_cut() {
        eprintln!("SKIPPED: the power cannot be cut here: {error}");
        return Ok(());
    }
    let sum = cut_power(&program, cuts, Control::No, seed)?;
    println!("{} power cuts, {} appends acknowledged: nothing lost", sum.cuts, sum.acknowledged);
    let control = cut_power(&program, cuts.min(5), Control::Unsynced, seed)?;
    println!("control without a sync: {} of {} power cuts lost", control.losses, control.cuts);
    if control.losses == 0 {
        return Err("the control lost nothing, so nothing was proved".into());
    }
    Ok(())
}
