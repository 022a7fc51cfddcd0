//! Records the scenarios of an agent with a version of it, and verifies each recording.
//!
//! `record AGENT VERSION --agents FOLDER --out FOLDER [--only-verify] [SCENARIO...]`: exit code 0
//! if no recording is different, otherwise 1; 2: the agent cannot run here.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

#[cfg(unix)]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = Options::parse(&arguments).and_then(|it| unix::run(&it));
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            let mut cause = error.source();
            while let Some(it) = cause {
                eprintln!("cause: {it}");
                cause = it.source();
            }
            ExitCode::from(2)
        }
    }
}

#[cfg(not(unix))]
fn main() -> ExitCode {
    eprintln!("error: agents are recorded on Unix only");
    ExitCode::from(2)
}

struct Options {
    agent: String,
    version: String,
    agents: PathBuf,
    out: PathBuf,
    only_verify: bool,
    /// The names of scenarios; none means all.
    scenarios: Vec<String>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self, Box<dyn Error>> {
        let wanted = "`record AGENT VERSION --agents FOLDER --out FOLDER [--only-verify] \
                      [SCENARIO...]` was wanted";
        let [agent, version, agents_flag, agents, out_flag, out, rest @ ..] = arguments else {
            return Err(wanted.into());
        };
        if agents_flag != "--agents" || out_flag != "--out" {
            return Err(wanted.into());
        }
        let is_flag = |it: &&String| *it == "--only-verify";
        Ok(Self {
            agent: agent.clone(),
            version: version.clone(),
            agents: PathBuf::from(agents),
            out: PathBuf::from(out),
            only_verify: rest.iter().any(|it| is_flag(&it)),
            scenarios: rest.iter().filter(|it| !is_flag(it)).cloned().collect(),
        })
    }

    fn wants(&self, scenario: &str) -> bool {
        self.scenarios.is_empty() || self.scenarios.iter().any(|it| it == scenario)
    }
}

#[cfg(unix)]
mod unix {
    use threadfold_convert::Agent;
    use threadfold_fold::parity::Verdict;
    use threadfold_testkit::recording::{
        Recording, Verification, claude, codex, opencode, table, verify,
    };
    use threadfold_testkit::{Availability, ClaudeCode, Codex, OpenCode, TestkitError};

    use super::*;

    pub(super) fn run(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
        let (agent, record): (Agent, fn(&Options) -> _) = match options.agent.as_str() {
            "claude" => (threadfold_convert::claude::AGENT, record_claude),
            "opencode" => (threadfold_convert::opencode::AGENT, record_opencode),
            "codex" => (threadfold_convert::codex::AGENT, record_codex),
            other => return Err(format!("there are no scenarios of `{other}`").into()),
        };
        let failed = match options.only_verify {
            true => Vec::new(),
            false => record(options)?,
        };
        let mut verifications = Vec::new();
        for folder in recordings(&options.out)? {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            if options.wants(&name) {
                verifications.push(verify(agent, &folder)?);
            }
        }
        println!("{} {}", agent.title(), options.version);
        print!("{}", table(&verifications));
        for failure in &failed {
            println!("not recorded: {failure}");
        }
        let is_different = |it: &Verification| it.verdict() == Verdict::Different;
        let is_bad = verifications.is_empty()
            || !failed.is_empty()
            || verifications.iter().any(is_different);
        Ok(if is_bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Records the scenarios, and returns those that failed, with the reason.
    fn record_claude(options: &Options) -> Result<Vec<String>, Box<dyn Error>> {
        let claude = found(ClaudeCode::find_version(&options.agents, &options.version)?)?;
        let abilities = claude::Abilities::probe(&claude)?;
        let mut failed = Vec::new();
        let scenarios = claude::scenarios(&abilities);
        for scenario in scenarios.iter().filter(|it| options.wants(it.name())) {
            eprintln!("recording {}", scenario.name());
            let written = claude::record(&claude, &abilities, scenario, |it| options.write(it));
            if let Err(error) = written {
                failed.push(format!("{}: {error}", scenario.name()));
            }
        }
        Ok(failed)
    }

    fn record_codex(options: &Options) -> Result<Vec<String>, Box<dyn Error>> {
        let codex = found(Codex::find_version(&options.agents, &options.version)?)?;
        let abilities = codex::Abilities::probe(&codex)?;
        let mut failed = Vec::new();
        let scenarios = codex::scenarios(&abilities);
        for scenario in scenarios.iter().filter(|it| options.wants(it.name())) {
            eprintln!("recording {}", scenario.name());
            let written = codex::record(&codex, &abilities, scenario, |it| options.write(it));
            if let Err(error) = written {
                failed.push(format!("{}: {error}", scenario.name()));
            }
        }
        Ok(failed)
    }

    fn record_opencode(options: &Options) -> Result<Vec<String>, Box<dyn Error>> {
        let opencode = found(OpenCode::find_version(&options.agents, &options.version)?)?;
        let mut scenarios = opencode::scenarios();
        scenarios.retain(|it| options.wants(it.name()));
        opencode::record(&opencode, &scenarios, |it| {
            eprintln!("recorded {}", it.scenario());
            options.write(it)
        })?;
        Ok(Vec::new())
    }

    fn found<A>(availability: Availability<A>) -> Result<A, String> {
        match availability {
            Availability::Found(agent) => Ok(agent),
            Availability::Unavailable(reason) => Err(reason),
        }
    }

    impl Options {
        fn write(&self, recording: &Recording) -> Result<(), TestkitError> {
            recording.write(&self.out.join(recording.scenario()))
        }
    }

    /// Returns the recordings in a folder, sorted by name.
    fn recordings(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.join("info.json").is_file() {
                found.push(path);
            }
        }
        found.sort();
        Ok(found)
    }
}
