//! Kills a run of the loop repeatedly, and reports what ran twice.
//!
//! `crash-loop --kills N` exits with 0 if nothing ran twice and nothing was lost, else with 1. With
//! `--postgres`, the runs are kept in a database, and resumed on other machines.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use threadfold_loop_crash::{
    BoxError, ChildArgs, Fail, Matrix, Recording, RunPlace, StoreKind, boundaries, child,
    control_fails, random_kills,
};
use threadfold_testkit::{Durability, PostgresServer};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match &arguments[..] {
        ["child", store, world, rest @ ..] => {
            read_child(store, world, rest).and_then(|args| child(&args))
        }
        ["--kills", kills] => report(kills, StoreKind::File),
        ["--kills", kills, "--postgres"] => report_over_postgres(kills),
        _ => Err("usage: `crash-loop --kills N [--postgres]`".into()),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

fn read_child(store: &str, world: &str, rest: &[&str]) -> Result<ChildArgs, BoxError> {
    let mut args = ChildArgs::new(RunPlace::new(store, "errands"), world.parse()?);
    let mut rest = rest.iter();
    while let Some(name) = rest.next() {
        if *name == "--control" {
            args.recording = Recording::AfterTools;
            continue;
        }
        let value = rest.next().ok_or_else(|| format!("`{name}` needs a value"))?;
        match *name {
            "--session" => args.place.session = (*value).into(),
            "--node" => args.node = Some((*value).to_owned()),
            "--pace" => args.pace = value.parse()?,
            "--lease" => args.lease = value.parse()?,
            "--fail-before" => args.fail = Fail::Before(value.parse()?),
            "--fail-after" => args.fail = Fail::After(value.parse()?),
            "--result" => {
                let (call, text) = value.split_once('=').ok_or("`--result CALL=TEXT`")?;
                args.results.insert(call.to_owned(), text.to_owned());
            }
            _ => return Err(format!("`{name}` is unknown").into()),
        }
    }
    Ok(args)
}

fn report_over_postgres(kills: &str) -> Result<ExitCode, BoxError> {
    let server = PostgresServer::start(Durability::Synced)?;
    report(kills, StoreKind::Postgres(server.url()))
}

fn report(kills: &str, store: StoreKind) -> Result<ExitCode, BoxError> {
    let kills = kills.parse()?;
    let seed = u64::from(SystemTime::now().duration_since(UNIX_EPOCH)?.subsec_nanos());
    let matrix = Matrix { program: std::env::current_exe()?, pace: 10, store };
    eprintln!("killing at every write …");
    let writes = boundaries(&matrix)?;
    println!("Killed before and after every write:\n\n{}", table(&writes));
    eprintln!("killing at random moments …");
    let random = random_kills(&matrix, kills, seed)?;
    println!("Killed at random moments (seed {seed}):\n\n{}", table(&random));
    eprintln!("killing the control …");
    let control = control_fails(&matrix, 20, seed)?;
    println!("The control, which records a turn after its tools:\n\n{}", table(&control));
    if control.is_clean() {
        return Err("the control ran nothing twice, so the test proves nothing".into());
    }
    match writes.is_clean() && random.is_clean() {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(ExitCode::FAILURE),
    }
}

fn table(report: &threadfold_loop_crash::Report) -> String {
    format!("| what | count |\n|---|---|\n{report}")
}
