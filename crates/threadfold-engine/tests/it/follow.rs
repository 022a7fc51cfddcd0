//! A file that another program writes, followed as it grows.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use threadfold_convert::claude;
use threadfold_core::SessionId;
use threadfold_engine::agents::claude::claude_files;
use threadfold_engine::{Follow, FoundSession, InputOptions, Session, open_one, read_files};
use threadfold_fold::{Cutter, Record, RecordKind, SourceRole, SourceSpec, detection_named};
use threadfold_store::{MemoryStore, Store};

use crate::recordings::{Dice, Recording, claude_recordings, import, open, settled_hash};

/// A session's files, which come into being a piece at a time.
struct GrowingFiles {
    files: Vec<(PathBuf, Vec<u8>, usize)>,
    main: PathBuf,
}

impl GrowingFiles {
    fn new(recording: &Recording, folder: &Path) -> Self {
        let origin = recording.main.parent().unwrap();
        let files = claude_files(&recording.main).unwrap().into_iter().map(|file| {
            let path = folder.join(file.path.strip_prefix(origin).unwrap());
            (path, fs::read(&file.path).unwrap(), 0)
        });
        Self { files: files.collect(), main: folder.join(recording.main.file_name().unwrap()) }
    }

    /// Writes a piece of one of the files; returns whether there is more.
    fn grow(&mut self, dice: &mut Dice, most: usize) -> bool {
        let unfinished: Vec<usize> = (0..self.files.len())
            .filter(|index| self.files[*index].2 < self.files[*index].1.len())
            .collect();
        let Some(index) = unfinished.get(dice.below(unfinished.len().max(1))) else {
            return false;
        };
        let (path, bytes, written) = &mut self.files[*index];
        let is_note = path.to_string_lossy().ends_with(".meta.json");
        let end =
            if is_note { bytes.len() } else { bytes.len().min(*written + 1 + dice.below(most)) };
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(&bytes[*written..end]).unwrap();
        *written = end;
        true
    }
}

/// Opens a transcript that may not have a complete line yet.
fn transcript(main: &Path) -> FoundSession {
    let format = detection_named("claude-transcript");
    open_one(main, &InputOptions { format, ..InputOptions::default() }).unwrap()
}

/// A follower of a session, and how many files it knows.
type FollowerState = (usize, Box<dyn Follow>);

/// Reads all files that exist by now.
async fn poll(session: &mut Session, following: &mut Option<FollowerState>, main: &Path) {
    if !main.exists() {
        return;
    }
    // A follower lists new files only after a while, so another one takes its place here.
    let files = claude_files(main).unwrap().len();
    if following.as_ref().is_none_or(|(known, _)| *known != files) {
        *following = Some((files, transcript(main).content.follower()));
    }
    if let Some((_, follower)) = following {
        follower.poll(session, &mut |_| {}).await.unwrap();
    }
}

#[tokio::test]
async fn a_session_that_is_followed_as_it_grows_is_the_imported_one() {
    for (seed, recording) in claude_recordings().iter().enumerate() {
        let imported: Arc<dyn Store> = Arc::new(MemoryStore::default());
        import(&imported, recording).await;
        let wanted = settled_hash(&imported, &recording.id).await;

        let mut dice = Dice::new(seed as u64 + 1);
        let folder = tempfile::tempdir().unwrap();
        let mut growing = GrowingFiles::new(recording, folder.path());
        let followed: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let mut session = open(&followed, &recording.id).await;
        let mut following = None;
        while growing.grow(&mut dice, 3_000) {
            poll(&mut session, &mut following, &growing.main).await;
            if dice.below(4) == 0 {
                session.close().await.unwrap();
                session = open(&followed, &recording.id).await;
                following = None;
            }
        }
        poll(&mut session, &mut following, &growing.main).await;
        if let Some((_, follower)) = &mut following {
            follower.flush_unterminated(&mut session).await.unwrap();
        }
        assert!(session.fold().sources().all(|source| source.spec.part == 1));
        session.close().await.unwrap();
        assert_eq!(settled_hash(&followed, &recording.id).await, wanted, "{}", recording.name);
    }
}

#[tokio::test]
async fn stream_and_files_in_any_order_end_in_one_session() {
    for (seed, recording) in claude_recordings().iter().enumerate() {
        let Some(stream) = &recording.stream else { continue };
        let bytes = fs::read(stream).unwrap();
        let mut hashes = Vec::new();
        for round in 0..3 {
            let mut dice = Dice::new((seed * 3 + round) as u64 + 7);
            let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
            let mut session = open(&store, &recording.id).await;
            let spec = SourceSpec::new(claude::AGENT, SourceRole::Stream, "stdout");
            let number = session.source(&spec).await.unwrap();
            let files = claude_files(&recording.main).unwrap();
            let mut cutter = Cutter::new(number);
            let mut records = Vec::new();
            cutter.push(&bytes, &mut records);
            cutter.finish(&mut records);
            let read_at = match round {
                0 => 0,
                1 => records.len(),
                _ => dice.below(records.len().max(1)),
            };
            for (index, record) in records.into_iter().enumerate() {
                if index == read_at {
                    read_files(&mut session, &files).await.unwrap();
                }
                session.accept(vec![record]).await.unwrap();
                if dice.below(8) == 0 {
                    session.close().await.unwrap();
                    session = open(&store, &recording.id).await;
                }
            }
            read_files(&mut session, &files).await.unwrap();
            let end = Record::new(RecordKind::End, number, 0, "");
            session.accept(vec![end]).await.unwrap();
            session.close().await.unwrap();
            hashes.push(settled_hash(&store, &recording.id).await);
        }
        assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{}", recording.name);
    }
}

fn line(text: &str) -> String {
    format!(
        r#"{{"type":"user","uuid":"{text}","sessionId":"s","message":{{"role":"user","content":"{text}"}}}}"#
    )
}

async fn prompts(store: &Arc<dyn Store>, id: &SessionId) -> Vec<String> {
    let loaded = threadfold_engine::load(store, id, u64::MAX, Default::default()).await.unwrap();
    let state = loaded.fold.settled();
    state.blocks().iter().map(|block| block.id.to_string()).collect()
}

/// A file that is followed, and the session it goes to.
struct FollowedFile {
    path: PathBuf,
    store: Arc<dyn Store>,
    session: Session,
    found: FoundSession,
    follower: Box<dyn Follow>,
    _folder: tempfile::TempDir,
}

impl FollowedFile {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        fs::write(&path, "").unwrap();
        let found = transcript(&path);
        let follower = found.content.follower();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let session = open(&store, &"s".into()).await;
        Self { path, store, session, found, follower, _folder: folder }
    }

    async fn poll(&mut self) -> u64 {
        self.follower.poll(&mut self.session, &mut |_| {}).await.unwrap().records
    }

    async fn prompts(&self) -> Vec<String> {
        prompts(&self.store, &"s".into()).await
    }

    fn parts(&self) -> Vec<u32> {
        self.session.fold().sources().map(|source| source.spec.part).collect()
    }
}

#[tokio::test]
async fn a_line_is_stored_once_it_is_terminated() {
    let mut followed = FollowedFile::new().await;
    let text = format!("{}\n", line("ö"));
    let cut = text.find('ö').unwrap() + 1;
    fs::write(&followed.path, &text.as_bytes()[..cut]).unwrap();
    assert_eq!(followed.poll().await, 0);
    fs::write(&followed.path, &text).unwrap();
    assert_eq!(followed.poll().await, 1);
    assert_eq!(followed.prompts().await, ["ö"]);
}

#[tokio::test]
async fn a_stored_unfinished_line_is_replaced_by_the_complete_one() {
    let mut followed = FollowedFile::new().await;
    let text = format!("{}\n", line("one"));
    fs::write(&followed.path, &text[..20]).unwrap();
    followed.poll().await;
    followed.follower.flush_unterminated(&mut followed.session).await.unwrap();
    assert_eq!(followed.prompts().await.len(), 1, "what is there of it is shown");
    fs::write(&followed.path, &text).unwrap();
    followed.poll().await;
    assert_eq!(followed.prompts().await, ["one"]);
}

#[tokio::test]
async fn a_truncated_and_rewritten_file_is_a_new_part() {
    let mut followed = FollowedFile::new().await;
    fs::write(&followed.path, format!("{}\n{}\n", line("one"), line("two"))).unwrap();
    followed.poll().await;
    fs::write(&followed.path, format!("{}\n", line("three"))).unwrap();
    assert_eq!(followed.poll().await, 1);
    assert_eq!(followed.parts(), [1, 2]);
}

#[tokio::test]
async fn a_file_replaced_by_a_longer_one_is_a_new_part() {
    let mut followed = FollowedFile::new().await;
    fs::write(&followed.path, format!("{}\n", line("one"))).unwrap();
    followed.poll().await;
    fs::write(&followed.path, format!("{}\n{}\n", line("two"), line("three"))).unwrap();
    followed.poll().await;
    assert_eq!(followed.parts(), [1, 2]);
}

#[tokio::test]
async fn a_file_moved_away_and_copied_back_is_continued() {
    let mut followed = FollowedFile::new().await;
    let text = format!("{}\n", line("one"));
    fs::write(&followed.path, &text).unwrap();
    followed.poll().await;
    let other = followed.path.with_extension("copy");
    fs::write(&other, format!("{text}{}\n", line("two"))).unwrap();
    fs::rename(&other, &followed.path).unwrap();
    assert_eq!(followed.poll().await, 1);
    assert_eq!((followed.parts(), followed.prompts().await.len()), (vec![1], 2));
}

#[tokio::test]
async fn a_file_rewritten_with_earlier_content_adds_nothing() {
    let mut followed = FollowedFile::new().await;
    let (one, other) = (format!("{}\n", line("one")), format!("{}\n", line("other")));
    for _ in 0..3 {
        for text in [&one, &other] {
            fs::write(&followed.path, text).unwrap();
            followed.poll().await;
        }
    }
    assert_eq!(followed.parts(), [1, 2]);
    assert_eq!(followed.session.cursor().seq, 4, "two sources and two lines");
    fs::write(&followed.path, format!("{one}{other}")).unwrap();
    followed.poll().await;
    assert_eq!(followed.parts(), [1, 2, 3], "an older part is not added to");
}

#[tokio::test]
async fn an_unfinished_line_that_is_replaced_is_not_lost() {
    let mut followed = FollowedFile::new().await;
    fs::write(&followed.path, "{\"first\": tr").unwrap();
    followed.poll().await;
    followed.follower.flush_unterminated(&mut followed.session).await.unwrap();
    fs::write(&followed.path, "{\"second\": 1}").unwrap();
    let mut again = followed.found.content.follower();
    again.poll(&mut followed.session, &mut |_| {}).await.unwrap();
    again.flush_unterminated(&mut followed.session).await.unwrap();
    assert_eq!(followed.parts(), [1, 2]);
}

#[tokio::test]
async fn a_follower_finds_the_file_of_a_subagent_that_comes_late() {
    let mut followed = FollowedFile::new().await;
    fs::write(&followed.path, format!("{}\n", line("one"))).unwrap();
    assert_eq!(followed.poll().await, 1);
    let subagents = followed.path.with_extension("").join("subagents");
    fs::create_dir_all(&subagents).unwrap();
    fs::write(subagents.join("agent-a1.jsonl"), format!("{}\n", line("two"))).unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while followed.poll().await == 0 {
        assert!(Instant::now() < end, "it was not found");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let roles: Vec<_> = followed.session.fold().sources().map(|it| it.spec.kind).collect();
    assert_eq!(roles, [SourceRole::Main, SourceRole::Subagent]);
}
