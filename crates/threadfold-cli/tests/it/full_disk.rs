//! A full disk whose blocks are smaller than a page: an error, and never a signal.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use threadfold_testkit::report_skipped;

use crate::env::{TestEnv, seen};

/// A file system of its own in a file, unmounted on drop.
struct SmallBlocks {
    folder: TempDir,
    is_mounted: bool,
}

impl SmallBlocks {
    /// Mounts one with blocks of 1 KiB; reports the reason where that is not possible.
    fn new() -> Option<Self> {
        let mut made = Self { folder: tempfile::tempdir().unwrap(), is_mounted: false };
        let image = made.folder.path().join("image");
        File::create(&image).unwrap().set_len(8 << 20).unwrap();
        fs::create_dir(made.path()).unwrap();
        let succeeds = |command: &mut Command| command.output().is_ok_and(|it| it.status.success());
        made.is_mounted =
            succeeds(Command::new("mkfs.ext4").args(["-q", "-b", "1024", "-m", "0"]).arg(&image))
                && succeeds(
                    Command::new("mount").args(["-o", "loop"]).arg(&image).arg(made.path()),
                );
        if made.is_mounted {
            return Some(made);
        }
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let reason = "an ext4 file system with small blocks cannot be mounted here";
        report_skipped(target, "a full disk with small blocks", reason).unwrap();
        None
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("mounted")
    }

    /// Fills it, and leaves this many bytes.
    fn fill(&self, left: usize) {
        let path = self.path().join("filler");
        // Not there at first.
        fs::remove_file(&path).ok();
        let mut filler = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        // In steps that become smaller, until not even a block fits.
        for step in [256 << 10, 8 << 10, 1 << 10] {
            let piece = vec![b'x'; step];
            while filler.write_all(&piece).and_then(|()| filler.sync_data()).is_ok() {}
        }
        let length = filler.metadata().unwrap().len();
        filler.set_len(length.saturating_sub(left as u64)).unwrap();
        filler.sync_all().unwrap();
    }
}

impl Drop for SmallBlocks {
    fn drop(&mut self) {
        if self.is_mounted {
            let unmounted = Command::new("umount").arg("--lazy").arg(self.path()).status();
            assert!(unmounted.is_ok_and(|it| it.success()));
        }
    }
}

/// Returns a folder with a store that a killed process left: its last records are in the WAL only.
fn killed_store(session: &str) -> TestEnv {
    let env = TestEnv::new();
    let file = format!("{session}.jsonl");
    let line = |number: u32| {
        format!(
            r#"{{"type":"user","uuid":"u{number}","sessionId":"{session}","message":{{"role":"user","content":"hello {number}"}}}}"#
        ) + "\n"
    };
    env.write(&file, line(0));
    let mut command = env.command(&["watch", "--json", &file, "--store", "store.db"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut shown = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut file = OpenOptions::new().append(true).open(env.path(&file)).unwrap();
    for number in 1..40 {
        file.write_all(line(number).as_bytes()).unwrap();
        let wanted = format!("hello {number}\"");
        assert!(shown.any(|line| line.contains(&wanted)), "record {number} is not shown");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(env.path("store.db-wal").metadata().unwrap().len() > 0);
    env
}

#[test]
fn on_a_full_disk_with_small_blocks_no_command_dies_of_a_signal() {
    let Some(disk) = SmallBlocks::new() else { return };
    let session = "5e551011-0000-4000-8000-000000000003";
    let env = killed_store(session);
    let store = disk.path().join("store.db").display().to_string();
    let (mut refused, mut done) = (0, 0);
    for left in [0, 1, 2, 4, 8, 10, 16, 32, 64, 90, 128, 256].map(|it| it << 10) {
        for (command, has_shm) in [
            (&["list"][..], false),
            (&["doctor"], false),
            (&["runs"], false),
            (&["export", session], false),
            (&["gc"], false),
            (&["list"], true),
            (&["gc"], true),
        ] {
            for name in ["filler", "store.db", "store.db-wal", "store.db-shm"] {
                // Not all are there.
                fs::remove_file(disk.path().join(name)).ok();
                if name != "filler" && (has_shm || name != "store.db-shm") {
                    fs::copy(env.path(name), disk.path().join(name)).unwrap();
                }
            }
            disk.fill(left);
            let output = env.command(&[command, &["--store", &store]].concat()).output().unwrap();
            let seen = seen(&output);
            match output.status.code() {
                Some(0 | 1) => done += 1,
                Some(2) => {
                    assert!(seen.contains("No space left on device"), "{command:?} {left}: {seen}");
                    refused += 1;
                }
                _ => panic!("{command:?} with {left} bytes left: {} {seen}", output.status),
            }
        }
    }
    assert!(refused > 0 && done > 0, "{refused} were refused, {done} were done");
    fs::remove_file(disk.path().join("filler")).unwrap();
    assert!(env.done(&["export", session, "--store", &store]).contains("hello 39"));
}

#[test]
fn a_disk_that_fills_while_a_store_is_open_kills_nobody() {
    let Some(disk) = SmallBlocks::new() else { return };
    let session = "5e551011-0000-4000-8000-000000000004";
    let (env, store) = (TestEnv::new(), disk.path().join("store.db").display().to_string());
    let file = format!("{session}.jsonl");
    let line = |number: u32| {
        format!(
            r#"{{"type":"user","uuid":"u{number}","sessionId":"{session}","message":{{"role":"user","content":"hello {number}"}}}}"#
        ) + "\n"
    };
    env.write(&file, line(0));
    env.done(&["import", &file, "--store", &store]);
    for left in [0, 1, 20, 40, 80].map(|it| it << 10) {
        // The shared memory is made when the store is opened, and the disk is filled before the
        // first record is written.
        let mut command = env.command(&["watch", "--json", &file, "--store", &store]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut shown = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(shown.any(|line| line.contains("hello 0")), "the store is open");
        disk.fill(left);
        let number = u32::try_from(left).unwrap() + 1;
        let mut lines = OpenOptions::new().append(true).open(env.path(&file)).unwrap();
        lines.write_all(line(number).as_bytes()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(700));
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none_or(|it| it.code().is_some()), "{left}: {ended:?}");
        // What waited is stored once there is room.
        fs::remove_file(disk.path().join("filler")).unwrap();
        if ended.is_none() {
            let wanted = format!("hello {number}\"");
            assert!(shown.any(|line| line.contains(&wanted)), "{left}: not stored");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // A watch that gave up has stored less than the file has.
    env.done(&["import", &file, "--store", &store]);
    assert!(env.done(&["export", session, "--store", &store]).contains("hello 81921"));
}
