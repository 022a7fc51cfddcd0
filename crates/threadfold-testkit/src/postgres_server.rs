//! A PostgreSQL server for one test: in a temporary folder, on a free port of this machine.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

use crate::TestkitError;

/// The user and the password of every such server.
const USER: &str = "threadfold";
const PASSWORD: &str = "only-for-tests";
/// How long a server may take to start or to stop.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server. Dropping it stops it, and removes its data.
pub struct PostgresServer {
    programs: PathBuf,
    folder: TempDir,
    port: u16,
    durability: Durability,
    child: Option<Child>,
}

/// Whether a server syncs its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// As in production: what is committed survives a crash of the server.
    Synced,
    /// Much faster, for tests that crash nothing.
    Fast,
}

impl PostgresServer {
    /// Starts a server with an empty database.
    pub fn start(durability: Durability) -> Result<Self, TestkitError> {
        let programs = programs()?;
        let folder = tempfile::Builder::new().prefix("threadfold-postgres-").tempdir();
        let folder = folder.map_err(TestkitError::io("create a folder for PostgreSQL"))?;
        let template = template(&programs).map_err(TestkitError::io("create a database"))?;
        let data = folder.path().join("data");
        let prepared = run(Command::new("cp").arg("-a").arg(&template).arg(&data))
            .and_then(|()| own(folder.path()));
        prepared.map_err(TestkitError::io("copy an empty database"))?;
        let port = free_port().map_err(TestkitError::io("find a free port"))?;
        let mut server = Self { programs, folder, port, durability, child: None };
        server.start_again()?;
        Ok(server)
    }

    /// Returns the address of its database, with the password.
    pub fn url(&self) -> String {
        format!("postgres://{USER}:{PASSWORD}@127.0.0.1:{}/postgres", self.port)
    }

    /// Returns its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Runs SQL as the owner of the database, and returns what it printed: a line for each row.
    pub fn sql(&self, statements: &str) -> Result<String, TestkitError> {
        let mut command = Command::new(self.programs.join("psql"));
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1"]);
        command.args(["-p", &self.port.to_string(), "-U", USER, "-d", "postgres"]);
        command.args(["-c", statements]).env("PGPASSWORD", PASSWORD);
        let output = command.output().map_err(TestkitError::io("run psql"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(TestkitError::io("run psql")(io::Error::other(errors)))
    }

    /// Returns what it has logged.
    pub fn logged(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// Returns the folder of its data.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Starts it again after it was stopped.
    pub fn start_again(&mut self) -> Result<(), TestkitError> {
        let doing = || TestkitError::io("start PostgreSQL");
        let log = File::options().create(true).append(true).open(self.log()).map_err(doing())?;
        let errors = log.try_clone().map_err(doing())?;
        let mut command = as_server(&self.programs.join("postgres"));
        command.arg("-D").arg(self.folder.path().join("data"));
        command.args(["-p", &self.port.to_string(), "-k", ""]);
        for setting in ["listen_addresses=127.0.0.1", "autovacuum=off", "max_connections=200"] {
            command.args(["-c", setting]);
        }
        if self.durability == Durability::Fast {
            command.args(["-c", "fsync=off", "-c", "full_page_writes=off"]);
        }
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        self.child = Some(command.spawn().map_err(doing())?);
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if self.is_ready() {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(20));
        }
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let late = io::Error::other(format!("it does not answer:\n{log}"));
        Err(TestkitError::io("start PostgreSQL")(late))
    }

    fn is_ready(&self) -> bool {
        let mut command = Command::new(self.programs.join("pg_isready"));
        command.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]);
        TcpStream::connect(("127.0.0.1", self.port)).is_ok()
            && command.status().is_ok_and(|it| it.success())
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Stops it as `pg_ctl -m immediate` does: nothing is written any more.
    pub fn stop_at_once(&mut self) {
        self.stop_with(Signal::QUIT);
    }

    /// Kills its first process; the others notice, and end.
    pub fn kill(&mut self) {
        self.stop_with(Signal::KILL);
    }

    fn stop_with(&mut self, signal: Signal) {
        let Some(mut child) = self.child.take() else { return };
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended by itself.
            kill_process(pid, signal).ok();
        }
        child.wait().ok();
        // A new server refuses to start while processes of the old one use its memory.
        let until = Instant::now() + PATIENCE;
        while self.has_processes() && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns whether processes of this server remain, by their working folder.
    fn has_processes(&self) -> bool {
        let data = self.folder.path().join("data");
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        all.filter_map(|it| fs::read_link(it.path().join("cwd")).ok()).any(|it| it == data)
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.stop_at_once();
    }
}

/// Returns the folder of PostgreSQL's programs, of the newest version there is.
fn programs() -> Result<PathBuf, TestkitError> {
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = installed
        .filter_map(|it| Some((it.file_name().to_str()?.parse().ok()?, it.path().join("bin"))))
        .filter(|(_, folder)| folder.join("postgres").exists())
        .collect();
    found.sort();
    found.pop().map(|(_, folder)| folder).ok_or_else(|| {
        let missing = "it is not installed; `cargo xtask test` installs it";
        TestkitError::io("find PostgreSQL")(io::Error::other(missing))
    })
}

/// Returns the folder of an empty database, which is created once.
fn template(programs: &Path) -> io::Result<PathBuf> {
    let version = programs.parent().and_then(Path::file_name).and_then(OsStr::to_str);
    let user = geteuid().as_raw();
    let name = format!("threadfold-postgres-template-{}-{user}", version.unwrap_or("any"));
    let folder = std::env::temp_dir().join(name);
    let lock = File::create(folder.with_extension("lock"))?;
    flock(&lock, FlockOperation::LockExclusive)?;
    if folder.join("data/PG_VERSION").exists() {
        return Ok(folder.join("data"));
    }
    let unfinished = tempfile::tempdir()?;
    let password = unfinished.path().join("password");
    fs::write(&password, PASSWORD)?;
    own(unfinished.path())?;
    own(&password)?;
    let mut command = as_server(&programs.join("initdb"));
    command.args(["--encoding=UTF8", "--locale=C", "--auth=scram-sha-256", "--no-sync"]);
    command.arg(format!("--username={USER}")).arg("--pwfile").arg(&password);
    run(command.arg("-D").arg(unfinished.path().join("data")))?;
    fs::remove_file(&password)?;
    fs::rename(unfinished.keep(), &folder)?;
    Ok(folder.join("data"))
}

/// Returns a command that runs a program of the server: it refuses to run as root.
fn as_server(program: &Path) -> Command {
    if !geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=KILL"]);
    command.arg("--").arg(program);
    command
}

/// Gives a file to the user that the server runs as.
fn own(path: &Path) -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let of = |option: &str| -> io::Result<u32> {
        let output = Command::new("id").args([option, "postgres"]).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        text.trim().parse().map_err(|_| io::Error::other("there is no user `postgres`"))
    };
    chown(path, Some(of("-u")?), Some(of("-g")?))
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{command:?}: {}\n{errors}", output.status)))
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
