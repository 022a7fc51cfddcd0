//! Generates the sessions: a home of thousands in all layouts, one home for each layout, and one
//! large session.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use threadfold_testkit::big_session::{TranscriptFile, write_transcript_file};

/// Where Claude Code stores what subagents wrote.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Layout {
    /// In the main file.
    Inside,
    /// In files beside the main file.
    Beside,
    /// In a folder of the session.
    Below,
    /// In a folder for each workflow of the session.
    Workflows,
}

pub(crate) const LAYOUTS: [Layout; 4] =
    [Layout::Inside, Layout::Beside, Layout::Below, Layout::Workflows];

/// How many sessions are in one project.
const PROJECT: usize = 100;
/// Beside a session there are at most this many subagents.
const SUBAGENTS: usize = 4;
/// The sizes of sessions: weight, smallest and largest, in bytes; 750 kB on average.
const SIZES: [(u64, u64, u64); 4] = [
    (50, 20_000, 200_000),
    (35, 200_000, 1_000_000),
    (13, 1_000_000, 4_000_000),
    (2, 4_000_000, 12_000_000),
];
/// The size of the sessions in the home of one layout: listing must not depend on it.
const SMALL: u64 = 20_000;

/// Generated folders; each is the folder of Claude Code in a home.
pub(crate) struct Homes {
    /// All layouts, sessions of real sizes.
    pub(crate) all: PathBuf,
    /// Small sessions in one layout each.
    pub(crate) by_layout: Vec<(Layout, PathBuf)>,
    /// One large session.
    pub(crate) large: PathBuf,
}

impl Homes {
    /// Generates them below a folder, unless that was done before.
    pub(crate) fn generate(folder: &Path, sessions: usize, large: u64) -> io::Result<Self> {
        let folder = folder.join(format!("{sessions}-{large}"));
        let homes = Self {
            all: folder.join("all"),
            by_layout: LAYOUTS.map(|it| (it, folder.join(format!("{it:?}")))).into(),
            large: folder.join("large"),
        };
        let done = folder.join("done");
        if done.exists() {
            return Ok(homes);
        }
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        for index in 0..sessions {
            let layout = LAYOUTS[index / PROJECT % LAYOUTS.len()];
            write_session(&homes.all, layout, index, size(index))?;
            for (layout, home) in &homes.by_layout {
                write_session(home, *layout, index, SMALL)?;
            }
        }
        write_session(&homes.large, Layout::Below, 0, large)?;
        fs::write(done, "")?;
        Ok(homes)
    }
}

/// Returns the main file of the first session in a home.
pub(crate) fn first_session(home: &Path) -> PathBuf {
    home.join("projects/-home-dev-project-0").join(format!("{}.jsonl", session_id(0)))
}

pub(crate) fn session_id(index: usize) -> String {
    format!("{:08x}-5e55-4000-8000-{:012x}", mix(index as u64) >> 32, index)
}

fn write_session(home: &Path, layout: Layout, index: usize, bytes: u64) -> io::Result<()> {
    let folder = home.join(format!("projects/-home-dev-project-{}", index / PROJECT));
    let session = session_id(index);
    let count = (mix(index as u64 ^ 0xa5a5) % (SUBAGENTS as u64 + 1)) as usize;
    let share = bytes / 10;
    fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{session}.jsonl"));
    let mut main = BufWriter::new(File::create(&path)?);
    let own = bytes - share * count as u64;
    let file = TranscriptFile { seed: mix(index as u64), session: &session, subagent: None };
    write_transcript_file(&file, own, &mut main)?;
    for number in 0..count {
        let agent = format!("{:08x}{number}", mix(index as u64 + 7) as u32);
        let seed = mix((index * SUBAGENTS + number) as u64 ^ 0x5b);
        let file = TranscriptFile { seed, session: &session, subagent: Some(&agent) };
        let place = match layout {
            Layout::Inside => {
                write_transcript_file(&file, share, &mut main)?;
                continue;
            }
            Layout::Beside => folder.clone(),
            Layout::Below => folder.join(format!("{session}/subagents")),
            Layout::Workflows => {
                folder.join(format!("{session}/subagents/workflows/wf_{}", number / 2))
            }
        };
        fs::create_dir_all(&place)?;
        let mut out = BufWriter::new(File::create(place.join(format!("agent-{agent}.jsonl")))?);
        write_transcript_file(&file, share, &mut out)?;
        out.flush()?;
    }
    main.flush()
}

fn size(index: usize) -> u64 {
    let total: u64 = SIZES.iter().map(|it| it.0).sum();
    let mut at = mix(index as u64 ^ 0x517e) % total;
    for (weight, low, high) in SIZES {
        if at < weight {
            return low + mix(index as u64 ^ 0xface) % (high - low);
        }
        at -= weight;
    }
    0
}

/// Returns a number that looks random, the same on every machine.
fn mix(number: u64) -> u64 {
    let mixed = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ (mixed >> 32)
}
