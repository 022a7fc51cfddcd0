//! The files of a session, written as the log hands them out.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use threadfold_engine::{EngineError, originals, salvage};
use threadfold_fold::SourceSpec;
use threadfold_store::SessionEntry;

use super::name::{file_name, relative_path};
use crate::error::CommandError;
use crate::store::OpenStore;

/// A file that was written.
pub(crate) struct Written {
    /// Its source, in the latest part.
    pub(crate) spec: SourceSpec,
    pub(crate) path: PathBuf,
    /// Where it ends, counted as it was.
    pub(crate) bytes: u64,
    /// Stretches that could not be read, by where they were.
    pub(crate) missing: Vec<Range<u64>>,
    /// What it was before it was written anew, where that is kept.
    pub(crate) older: Vec<PathBuf>,
}

type Place<'a> = dyn FnMut(&SourceSpec) -> io::Result<Option<PathBuf>> + 'a;

/// Writes every source to a file of its own; of a file that was written anew, each part.
pub(crate) struct Scribe<'a> {
    /// Says where a source goes; nowhere if it is left out.
    place: Box<Place<'a>>,
    keeps_older_parts: bool,
    /// What is missing is passed over.
    salvages: bool,
    written: Vec<Written>,
    /// Where each stands among those that were written.
    known: HashMap<String, Option<usize>>,
    open: Option<(usize, BufWriter<File>)>,
}

impl<'a> Scribe<'a> {
    /// Returns one that writes to where `place` says; what a file was before it was written anew
    /// is left out.
    pub(crate) fn new(place: impl FnMut(&SourceSpec) -> io::Result<Option<PathBuf>> + 'a) -> Self {
        Self {
            place: Box::new(place),
            keeps_older_parts: false,
            salvages: false,
            written: Vec::new(),
            known: HashMap::new(),
            open: None,
        }
    }

    /// Returns one that writes into a folder, by the names of the sources.
    pub(crate) fn into_folder(folder: &'a Path) -> Self {
        let mut taken = Taken::default();
        let place = move |spec: &SourceSpec| below(folder, &spec.name, &mut taken).map(Some);
        Self { keeps_older_parts: true, ..Self::new(place) }
    }

    /// Writes all that the log has of a session, and returns what was written.
    pub(crate) fn write_all(
        mut self,
        store: &OpenStore,
        entry: &SessionEntry,
    ) -> Result<Vec<Written>, CommandError> {
        let shared = store.shared();
        let written = store.wait(originals(&*shared, &entry.session, |spec, position, bytes| {
            self.write(spec, position, bytes)
        }));
        let closed = self.close();
        written?;
        closed.map_err(|source| {
            let name = self.written.last().map_or(String::new(), |it| it.spec.name.clone());
            CommandError::from(EngineError::Output { name, source })
        })?;
        Ok(self.written)
    }

    /// Writes what can still be read of a damaged session, and returns what was written and which
    /// records were not.
    pub(crate) fn salvage(
        mut self,
        store: &OpenStore,
        entry: &SessionEntry,
    ) -> Result<(Vec<Written>, Vec<RangeInclusive<u64>>), CommandError> {
        self.salvages = true;
        let shared = store.shared();
        let lost = store.wait(salvage(&*shared, &entry.session, |spec, position, bytes| {
            self.write(spec, position, bytes)
        }))?;
        self.close()?;
        Ok((self.written, lost))
    }

    fn write(&mut self, spec: &SourceSpec, position: u64, bytes: &[u8]) -> io::Result<()> {
        let Some(index) = self.file_of(spec)? else { return Ok(()) };
        if bytes.is_empty() {
            return Ok(());
        }
        if self.open.as_ref().is_none_or(|(open, _)| *open != index) {
            self.close()?;
            let mut file = OpenOptions::new().write(true).open(&self.written[index].path)?;
            file.seek(SeekFrom::End(0))?;
            self.open = Some((index, BufWriter::with_capacity(256 << 10, file)));
        }
        let Some((_, out)) = &mut self.open else { return Ok(()) };
        let Written { bytes: end, missing, .. } = &mut self.written[index];
        if position > *end {
            if !self.salvages {
                let what = format!("byte {end} is missing, and {position} came");
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            missing.push(*end..position);
        }
        if position < *end {
            missing.retain(|it| it.end <= position);
            let left_out: u64 = missing.iter().map(|it| it.end - it.start).sum();
            out.flush()?;
            out.get_mut().set_len(position - left_out)?;
            out.seek(SeekFrom::Start(position - left_out))?;
        }
        out.write_all(bytes)?;
        *end = position + bytes.len() as u64;
        Ok(())
    }

    /// Returns the file of a source, and begins it if it is new; nothing if it is left out.
    fn file_of(&mut self, spec: &SourceSpec) -> io::Result<Option<usize>> {
        let key = format!("{:?}", (&spec.agent, spec.kind, &spec.agent_id, &spec.name));
        let Some(known) = self.known.get(&key).copied() else {
            let Some(path) = (self.place)(spec)? else {
                self.known.insert(key, None);
                return Ok(None);
            };
            create_new(&path)?;
            let index = self.written.len();
            self.known.insert(key, Some(index));
            let (spec, missing, older) = (spec.clone(), Vec::new(), Vec::new());
            self.written.push(Written { spec, path, bytes: 0, missing, older });
            return Ok(Some(index));
        };
        let Some(index) = known else { return Ok(None) };
        let known = &mut self.written[index];
        if known.spec.part != spec.part {
            let older = beside(&known.path, &format!(".~{}~", known.spec.part));
            let path = known.path.clone();
            (known.spec, known.bytes) = (spec.clone(), 0);
            known.missing.clear();
            self.close()?;
            if self.keeps_older_parts {
                fs::rename(&path, &older)?;
                self.written[index].older.push(older);
            } else {
                fs::remove_file(&path)?;
            }
            create_new(&path)?;
        }
        Ok(Some(index))
    }

    fn close(&mut self) -> io::Result<()> {
        match self.open.take() {
            Some((_, mut out)) => {
                out.flush()?;
                out.get_ref().sync_all()
            }
            None => Ok(()),
        }
    }
}

/// Makes a file that only this user may read, and its folder. One that is there is refused.
pub(super) fn create_new(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The paths that were given out in a folder: of files, and of the folders they lie in.
#[derive(Default)]
pub(crate) struct Taken {
    files: BTreeSet<PathBuf>,
    folders: BTreeSet<PathBuf>,
}

impl Taken {
    fn is_free(&self, path: &Path) -> bool {
        let is_file = |it: &Path| self.files.contains(it);
        !self.folders.contains(path) && !path.ancestors().any(is_file)
    }
}

/// Returns a path of this name in a folder, and no other's. Links on the way are not followed.
pub(crate) fn below(folder: &Path, name: &str, taken: &mut Taken) -> io::Result<PathBuf> {
    let mut path = folder.join(relative_path(name));
    let mut number = 1;
    while !taken.is_free(&path) {
        number += 1;
        path = beside(&folder.join(file_name(name)), &format!(".{number}"));
    }
    taken.files.insert(path.clone());
    for way in path.ancestors().skip(1).take_while(|it| *it != folder) {
        taken.folders.insert(way.to_owned());
        refuse_link(way)?;
    }
    Ok(path)
}

fn refuse_link(way: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(way).is_ok_and(|it| it.is_symlink()) {
        return Ok(());
    }
    let what = format!("`{}` is a link, and leads elsewhere", way.display());
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

/// Moves files that were written into a folder of their own to where they belong, all or none.
/// Without force, none may be there; what is there and is no file is never replaced.
pub(crate) fn move_into(
    folder: &Path,
    staged: &Path,
    files: &[PathBuf],
    has_force: bool,
) -> io::Result<Vec<PathBuf>> {
    let inner = files.iter().map(|it| it.strip_prefix(staged).unwrap_or(it));
    let targets: Vec<_> = inner.map(|it| folder.join(it)).collect();
    for target in &targets {
        for way in target.ancestors().skip(1).take_while(|it| *it != folder) {
            refuse_link(way)?;
        }
        if let Ok(there) = fs::symlink_metadata(target)
            && !(has_force && there.is_file())
        {
            let what = format!("`{}` is there", target.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
        }
    }
    for (file, target) in files.iter().zip(&targets) {
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::rename(file, target)?;
    }
    Ok(targets)
}

/// Returns the path with an ending added.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Returns the only file of a session, with how many parts came before; nothing if it has more.
pub(crate) fn lone_file(
    store: &OpenStore,
    entry: &SessionEntry,
) -> Result<Option<SourceSpec>, CommandError> {
    let mut found: Option<SourceSpec> = None;
    let mut has_more = false;
    let shared = store.shared();
    store.wait(originals(&*shared, &entry.session, |spec, _, _| {
        has_more |= found.as_ref().is_some_and(|it| !it.is_same_source(spec));
        found = Some(spec.clone());
        Ok(())
    }))?;
    Ok(found.filter(|_| !has_more))
}

/// Refuses a session that came from no file: a run of Threadfold's own.
pub(crate) fn need_files(store: &OpenStore, entry: &SessionEntry) -> Result<(), CommandError> {
    if has_files(store, entry)? {
        return Ok(());
    }
    let hint = "`threadfold export` writes it with `--format events`, which can be imported \
                again, `markdown` or `json`";
    Err(CommandError::new(anyhow!("the session has no files of an agent"), hint))
}

/// Says whether anything of a session came from a file.
pub(crate) fn has_files(store: &OpenStore, entry: &SessionEntry) -> Result<bool, CommandError> {
    let mut has_file = false;
    let shared = store.shared();
    let read = store.wait(originals(&*shared, &entry.session, |_, _, _| {
        has_file = true;
        // One is enough.
        Err(io::ErrorKind::Interrupted.into())
    }));
    match has_file {
        true => Ok(true),
        false => Ok(read.map(|()| false)?),
    }
}
