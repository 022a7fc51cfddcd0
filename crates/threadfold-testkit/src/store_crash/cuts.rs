//! Cuts the power of a separate file system, so that the machine stays on.
//!
//! The ioctl `EXT4_IOC_SHUTDOWN` stops ext4 at once, without further writes; the next mount shows
//! the same data as after a power cut. Requires root.
//!
//! A power cut also stops the process. So the child is frozen just before: a pending sync stays
//! pending, and its completion is not reported. Otherwise some kernels report success to a process
//! whose sync was waiting for the journal, although the journal was just aborted.

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
use super::verify::{AcknowledgedWrites, look};

const WRITERS: u64 = 24;
/// The maximum number of acknowledgements to wait for before a cut.
const PATIENCE: u64 = 600;
/// Shuts ext4 down without flushing its journal (flag 2 of ioctl `0x8004587d`), as soon as it reads
/// a line on its input.
const SHUTDOWN: &str = r#"open(my $folder, "<", $ARGV[0]) or die "open: $!";
my $flag = pack("L", 2);
readline(STDIN);
defined ioctl($folder, 0x8004587d, $flag) or die "ioctl: $!";"#;

/// The result of several power cuts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cuts {
    /// The number of power cuts.
    pub cuts: u64,
    /// How many appends were acknowledged before them.
    pub acknowledged: u64,
    /// How many cuts lost an acknowledged write.
    pub losses: u64,
}

/// Fails with the reason if the power cannot be cut here.
pub fn can_cut() -> Result<(), BoxError> {
    let disk = Disk::new()?;
    disk.mount()?;
    disk.switch()?.cut()?;
    disk.unmount()
}

/// Cuts the power `cuts` times, each time of a new file system.
///
/// A store must lose nothing; a control that does not sync is expected to lose records.
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
        let mut acknowledged = AcknowledgedWrites::default();
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

fn look_unsynced(file: &Path, acknowledged: &AcknowledgedWrites) -> Result<(), BoxError> {
    let connection = Connection::open(file)?;
    let last: u64 = connection.query_row("SELECT coalesce(max(seq), 0) FROM log", [], |row| {
        row.get::<_, i64>(0).map(i64::cast_unsigned)
    })?;
    if last < acknowledged.last(0) { Err("records are lost".into()) } else { Ok(()) }
}

/// A disk image, with a mount point.
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

    /// Returns a process that is ready to cut the power.
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

/// A process that cuts the power when it reads a line.
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

/// Freezes a process. Returns when none of its threads is running.
fn freeze(child: &Child) -> Result<(), BoxError> {
    let process = Pid::from_child(child);
    kill_process(process, Signal::STOP)?;
    let tasks = format!("/proc/{}/task", child.id());
    loop {
        let mut is_running = false;
        for task in fs::read_dir(&tasks)? {
            let status = fs::read_to_string(task?.path().join("stat"))?;
            let state = status.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
            // Stopped, or in a system call that it does not leave before it stops.
            is_running |= !matches!(state, Some('T' | 't' | 'D' | 'Z'));
        }
        if !is_running {
            return Ok(());
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // It is still mounted only if something failed.
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
