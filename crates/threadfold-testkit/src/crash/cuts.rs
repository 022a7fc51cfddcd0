//! Cutting the power: of a file system of its own, so that the machine stays on.
//!
//! ext4 can be told to stop at once and to write nothing more (`EXT4_IOC_SHUTDOWN`); what is there
//! after the next mount is what would be there after a power cut. Root only.
//!
//! With the power, the process stops too. So the child is frozen just before: a sync that is under
//! way stays under way, but its end is not told. Without that, some kernels tell a process whose
//! sync was waiting for the journal that all is well, when the journal has just been given up.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::BoxError;
use super::child::Control;
use super::kills::{hear_some, stop};
use super::random::Random;
use super::verify::{Acknowledged, look};

const WRITERS: u64 = 24;
/// How many acknowledgements are waited for at most before a cut.
const PATIENCE: u64 = 600;
/// Tells ext4 to stop without writing its journal: flag 2 of number `0x8004587d`; as soon as there
/// is a line on its input.
const SHUTDOWN: &str = r#"open(my $folder, "<", $ARGV[0]) or die "open: $!";
my $flag = pack("L", 2);
readline(STDIN);
defined ioctl($folder, 0x8004587d, $flag) or die "ioctl: $!";"#;

/// What many cuts came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cuts {
    /// How often the power was cut.
    pub cuts: u64,
    /// How many appends were acknowledged before.
    pub acknowledged: u64,
    /// How many cuts lost something that was acknowledged.
    pub losses: u64,
}

/// Says why the power cannot be cut here; nothing if it can.
pub fn can_cut() -> Result<(), BoxError> {
    let disk = Disk::new()?;
    disk.mount()?;
    disk.switch()?.cut()?;
    disk.unmount()
}

/// Cuts the power `cuts` times, each time of a new file system.
///
/// A store must lose nothing; a control that does not sync is expected to.
pub fn cut_power(program: &Path, cuts: u64, control: Control, seed: u64) -> Result<Cuts, BoxError> {
    let mut random = Random::new(seed);
    let mut sum = Cuts { cuts, ..Cuts::default() };
    for cut in 0..cuts {
        let disk = Disk::new()?;
        disk.mount()?;
        let file = disk.folder().join("store.db");
        let mut command = Command::new(program);
        command.arg("child").arg(&file).arg(WRITERS.to_string());
        if control == Control::Unsynced {
            command.arg("--unsynced");
        }
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let mut acknowledged = Acknowledged::default();
        let switch = disk.switch()?;
        hear_some(&mut child, &mut acknowledged, 1 + random.below(PATIENCE))?;
        freeze(&child)?;
        switch.cut()?;
        stop(child, &mut acknowledged)?;
        disk.unmount()?;
        disk.mount()?;
        sum.acknowledged += acknowledged.count;
        let found = match control {
            Control::No => look(&file, WRITERS, &acknowledged, &mut BTreeMap::new()).map(|_| ()),
            Control::Unsynced => look_unsynced(&file, &acknowledged),
        };
        disk.unmount()?;
        match (found, control) {
            (Ok(()), _) => {}
            (Err(_), Control::Unsynced) => sum.losses += 1,
            (Err(error), Control::No) => {
                return Err(format!("after cut {cut} (seed {seed}): {error}").into());
            }
        }
    }
    Ok(sum)
}

fn look_unsynced(file: &Path, acknowledged: &Acknowledged) -> Result<(), BoxError> {
    let connection = Connection::open(file)?;
    let last: u64 = connection.query_row("SELECT coalesce(max(seq), 0) FROM log", [], |row| {
        row.get::<_, i64>(0).map(i64::cast_unsigned)
    })?;
    if last < acknowledged.last(0) { Err("records are lost".into()) } else { Ok(()) }
}

/// A disk that is a file, with a place where it can be mounted.
struct Disk {
    folder: TempDir,
}

impl Disk {
    fn new() -> Result<Self, BoxError> {
        let disk = Self { folder: tempfile::tempdir()? };
        File::create(disk.image())?.set_len(64 << 20)?;
        fs::create_dir(disk.folder())?;
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(disk.image()))?;
        Ok(disk)
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    fn folder(&self) -> PathBuf {
        self.folder.path().join("mounted")
    }

    fn mount(&self) -> Result<(), BoxError> {
        run(Command::new("mount").args(["-o", "loop"]).arg(self.image()).arg(self.folder()))
    }

    /// Returns what cuts its power, ready to do so at once.
    fn switch(&self) -> Result<Switch, BoxError> {
        let switch = Command::new("perl")
            .args(["-e", SHUTDOWN])
            .arg(self.folder())
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(Switch(switch))
    }

    fn unmount(&self) -> Result<(), BoxError> {
        run(Command::new("umount").arg(self.folder()))
    }
}

/// A process that waits for a word to cut the power.
struct Switch(Child);

impl Switch {
    fn cut(mut self) -> Result<(), BoxError> {
        self.0.stdin.take().ok_or("a switch without a pipe")?.write_all(b"now\n")?;
        let output = self.0.wait_with_output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&output.stderr).trim_end().to_owned().into())
    }
}

/// Stops a process where it is. Returns when none of its threads runs any more.
fn freeze(child: &Child) -> Result<(), BoxError> {
    let process = Pid::from_child(child);
    kill_process(process, Signal::STOP)?;
    let tasks = format!("/proc/{}/task", child.id());
    loop {
        let mut is_running = false;
        for task in fs::read_dir(&tasks)? {
            let status = fs::read_to_string(task?.path().join("stat"))?;
            let state = status.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
            // Stopped, or in a call that it will not come back from before it stops.
            is_running |= !matches!(state, Some('T' | 't' | 'D' | 'Z'));
        }
        if !is_running {
            return Ok(());
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Only if something failed is it still mounted.
        Command::new("umount").arg("--lazy").arg(self.folder()).output().ok();
    }
}

fn run(command: &mut Command) -> Result<(), BoxError> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{}`: {}", command.get_program().display(), said.trim_end()).into())
}
