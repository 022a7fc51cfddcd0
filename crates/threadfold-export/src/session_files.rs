//! Writes the original files of a session from its log.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};

use threadfold_engine::{EngineError, originals, salvage};
use threadfold_fold::SourceSpec;
use threadfold_store::Store;

use threadfold_core::SessionId;

use crate::file_name::{file_name, relative_path};

/// A file that was written.
pub struct WrittenFile {
    /// Its source, in the latest part.
    pub spec: SourceSpec,
    /// Where it was written.
    pub path: PathBuf,
    /// Its end, counted in the original file.
    pub bytes: u64,
    /// Ranges that could not be read, as positions in the original file.
    pub missing: Vec<Range<u64>>,
    /// Earlier versions of a rewritten file, if they are kept.
    pub older: Vec<PathBuf>,
}

type Place<'a> = dyn FnMut(&SourceSpec) -> io::Result<Option<PathBuf>> + 'a;

/// Writes every source to its own file; a rewritten file, every version.
pub struct SourceWriter<'a> {
    /// Returns the path of a source; `None` skips it.
    place: Box<Place<'a>>,
    keeps_older_parts: bool,
    /// Gaps are skipped instead of being an error.
    salvages: bool,
    written: Vec<WrittenFile>,
    /// The index of each source in `written`.
    known: HashMap<String, Option<usize>>,
    open: Option<(usize, BufWriter<File>)>,
}

impl<'a> SourceWriter<'a> {
    /// Returns one that writes to the paths from `place`; earlier versions of a rewritten file
    /// are skipped.
    pub fn new(place: impl FnMut(&SourceSpec) -> io::Result<Option<PathBuf>> + 'a) -> Self {
        Self {
            place: Box::new(place),
            keeps_older_parts: false,
            salvages: false,
            written: Vec::new(),
            known: HashMap::new(),
            open: None,
        }
    }

    /// Returns one that writes into a folder, named after the sources.
    pub fn into_folder(folder: &'a Path) -> Self {
        let mut taken = UsedPaths::default();
        let place = move |spec: &SourceSpec| below(folder, &spec.name, &mut taken).map(Some);
        Self { keeps_older_parts: true, ..Self::new(place) }
    }

    /// Writes all files of a session, and returns them.
    pub async fn write_all(
        mut self,
        store: &dyn Store,
        session: &SessionId,
    ) -> Result<Vec<WrittenFile>, EngineError> {
        let written =
            originals(store, session, |spec, position, bytes| self.write(spec, position, bytes))
                .await;
        let closed = self.close();
        written?;
        closed.map_err(|source| {
            let name = self.written.last().map_or(String::new(), |it| it.spec.name.clone());
            EngineError::Output { name, source }
        })?;
        Ok(self.written)
    }

    /// Writes what can still be read of a corrupt session, and returns the files and the unreadable
    /// records.
    pub async fn salvage(
        mut self,
        store: &dyn Store,
        session: &SessionId,
    ) -> Result<(Vec<WrittenFile>, Vec<RangeInclusive<u64>>), EngineError> {
        self.salvages = true;
        let lost =
            salvage(store, session, |spec, position, bytes| self.write(spec, position, bytes))
                .await?;
        self.close().map_err(|source| {
            let name = self.written.last().map_or(String::new(), |it| it.spec.name.clone());
            EngineError::Output { name, source }
        })?;
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
        let WrittenFile { bytes: end, missing, .. } = &mut self.written[index];
        if position > *end {
            if !self.salvages {
                let what = format!("byte {end} is missing; the next one is {position}");
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

    /// Returns the file of a source, and creates it if it is new; `None` if the source is skipped.
    fn file_of(&mut self, spec: &SourceSpec) -> io::Result<Option<usize>> {
        let key = format!("{:?}", (&spec.agent, spec.kind, &spec.agent_id, &spec.name));
        let Some(known) = self.known.get(&key).copied() else {
            let Some(path) = (self.place)(spec)? else {
                self.known.insert(key, None);
                return Ok(None);
            };
            create_private(&path)?;
            let index = self.written.len();
            self.known.insert(key, Some(index));
            let (spec, missing, older) = (spec.clone(), Vec::new(), Vec::new());
            self.written.push(WrittenFile { spec, path, bytes: 0, missing, older });
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
            create_private(&path)?;
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

/// Creates a file that only this user can read, and its folder. Fails if it exists.
pub fn create_private(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The paths already used in a folder: of files, and of their parent folders.
#[derive(Default)]
pub struct UsedPaths {
    files: BTreeSet<PathBuf>,
    folders: BTreeSet<PathBuf>,
}

impl UsedPaths {
    fn is_free(&self, path: &Path) -> bool {
        let is_file = |it: &Path| self.files.contains(it);
        !self.folders.contains(path) && !path.ancestors().any(is_file)
    }
}

/// Returns an unused path for this name in a folder. Links on the way are not followed.
pub fn below(folder: &Path, name: &str, taken: &mut UsedPaths) -> io::Result<PathBuf> {
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
    let what = format!("`{}` is a link to another place", way.display());
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

/// Moves written files from a temporary folder to their destination, all or none.
/// Without force, no destination may exist; anything other than a file is never replaced.
pub fn move_into(
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
            let what = format!("`{}` already exists", target.display());
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

/// Returns the path with a suffix appended.
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Returns the only file of a session, with the number of earlier parts; `None` if it has several.
pub async fn lone_file(
    store: &dyn Store,
    session: &SessionId,
) -> Result<Option<SourceSpec>, EngineError> {
    let mut found: Option<SourceSpec> = None;
    let mut has_more = false;
    originals(store, session, |spec, _, _| {
        has_more |= found.as_ref().is_some_and(|it| !it.is_same_source(spec));
        found = Some(spec.clone());
        Ok(())
    })
    .await?;
    Ok(found.filter(|_| !has_more))
}

/// Returns whether any part of a session came from a file.
pub async fn has_files(store: &dyn Store, session: &SessionId) -> Result<bool, EngineError> {
    let mut has_file = false;
    let read = originals(store, session, |_, _, _| {
        has_file = true;
        // One is sufficient.
        Err(io::ErrorKind::Interrupted.into())
    })
    .await;
    match has_file {
        true => Ok(true),
        false => read.map(|()| false),
    }
}
