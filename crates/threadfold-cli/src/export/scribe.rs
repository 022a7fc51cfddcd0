//! The files of a session, written as the log hands them out.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use threadfold_engine::{EngineError, SourceSpec, originals};
use threadfold_store::SessionEntry;

use super::name::{file_name, relative_path};
use crate::error::CommandError;
use crate::store::OpenStore;

/// A file that was written.
pub(crate) struct Written {
    /// Its source, in the latest part.
    pub(crate) spec: SourceSpec,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    /// What it was before it was written anew, where that is kept.
    pub(crate) older: Vec<PathBuf>,
}

type Place<'a> = dyn FnMut(&SourceSpec) -> io::Result<PathBuf> + 'a;

/// Writes every source to a file of its own; of a file that was written anew, each part.
pub(crate) struct Scribe<'a> {
    /// Says where a source goes.
    place: Box<Place<'a>>,
    keeps_older_parts: bool,
    written: Vec<Written>,
    known: HashMap<String, usize>,
    open: Option<(usize, BufWriter<File>)>,
}

impl<'a> Scribe<'a> {
    /// Returns one that writes to where `place` says; what a file was before it was written anew
    /// is left out.
    pub(crate) fn new(place: impl FnMut(&SourceSpec) -> io::Result<PathBuf> + 'a) -> Self {
        Self {
            place: Box::new(place),
            keeps_older_parts: false,
            written: Vec::new(),
            known: HashMap::new(),
            open: None,
        }
    }

    /// Returns one that writes into a folder, by the names of the sources.
    pub(crate) fn into_folder(folder: &'a Path, has_force: bool) -> Self {
        let mut taken = Taken::default();
        let place = move |spec: &SourceSpec| {
            let path = below(folder, &spec.name, &mut taken)?;
            if has_force {
                remove_if_there(&path)?;
            }
            Ok(path)
        };
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
            CommandError::from(EngineError::Written { name, source })
        })?;
        Ok(self.written)
    }

    fn write(&mut self, spec: &SourceSpec, position: u64, bytes: &[u8]) -> io::Result<()> {
        let index = self.file_of(spec)?;
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
        let end = &mut self.written[index].bytes;
        if position > *end {
            let what = format!("byte {end} is missing, and {position} came");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        if position < *end {
            out.flush()?;
            out.get_mut().set_len(position)?;
            out.seek(SeekFrom::Start(position))?;
        }
        out.write_all(bytes)?;
        *end = position + bytes.len() as u64;
        Ok(())
    }

    /// Returns the file of a source, and begins it if it is new.
    fn file_of(&mut self, spec: &SourceSpec) -> io::Result<usize> {
        let key = format!("{:?}", (&spec.agent, spec.kind, &spec.agent_id, &spec.name));
        let Some(index) = self.known.get(&key).copied() else {
            let path = (self.place)(spec)?;
            create_new(&path)?;
            self.known.insert(key, self.written.len());
            let (spec, older) = (spec.clone(), Vec::new());
            self.written.push(Written { spec, path, bytes: 0, older });
            return Ok(self.written.len() - 1);
        };
        let known = &mut self.written[index];
        if known.spec.part != spec.part {
            let older = beside(&known.path, &format!(".~{}~", known.spec.part));
            let path = known.path.clone();
            (known.spec, known.bytes) = (spec.clone(), 0);
            self.close()?;
            if self.keeps_older_parts {
                fs::rename(&path, &older)?;
                self.written[index].older.push(older);
            } else {
                fs::remove_file(&path)?;
            }
            create_new(&path)?;
        }
        Ok(index)
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
fn create_new(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Makes a file, or says that there is one.
pub(crate) fn create(path: &Path, has_force: bool) -> Result<File, CommandError> {
    let made = match has_force {
        true => remove_if_there(path).and_then(|()| create_new(path)),
        false => create_new(path),
    };
    made.map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::AlreadyExists => "`--force` replaces it",
            _ => "look whether the folder is there and may be written to",
        };
        let what = format!("`{}` cannot be written", path.display());
        CommandError::new(anyhow::Error::new(error).context(what), hint)
    })
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
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
        if fs::symlink_metadata(way).is_ok_and(|it| it.is_symlink()) {
            let what = format!("`{}` is a link, and leads elsewhere", way.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
    }
    Ok(path)
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
