//! Which sessions there are, told by folders and names of files alone.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::SystemTime;

use threadfold_convert::claude::layout::{belongs_to, sessions};

/// How deep folders of subagents are searched; workflows have some of their own.
const DEPTH: usize = 4;

/// The sessions below a folder.
pub(crate) struct Sessions {
    /// Where they were looked for.
    pub(crate) place: PathBuf,
    /// What was found, by project and name.
    pub(crate) found: Vec<FoundSession>,
    /// What could not be looked into.
    pub(crate) unreadable: Vec<(PathBuf, io::Error)>,
}

/// A session that was found.
pub(crate) struct FoundSession {
    /// Its name: the main file's.
    pub(crate) id: String,
    /// The folder of its project, as the agent named it.
    pub(crate) project: String,
    /// Its main file.
    pub(crate) main: PathBuf,
    /// What surely is its own: the files of its subagents and what is noted beside them.
    own: Vec<PathBuf>,
    /// Files of subagents that lie beside several main files.
    beside: Rc<[BesideFile]>,
}

/// A subagent's file beside main files; what it says inside tells whose it is.
struct BesideFile {
    path: PathBuf,
    first_line: OnceCell<Option<Vec<u8>>>,
}

impl Sessions {
    /// Finds the sessions of Claude Code, in the folder that it uses itself.
    pub(crate) fn of_claude() -> Self {
        let configured = env::var_os("CLAUDE_CONFIG_DIR").filter(|folder| !folder.is_empty());
        let home = || env::home_dir().unwrap_or_default().join(".claude");
        Self::below(&configured.map_or_else(home, PathBuf::from).join("projects"))
    }

    /// Finds the sessions in `folder`: a project's, or one that holds those of projects.
    pub(crate) fn below(folder: &Path) -> Self {
        let mut all = Self { place: folder.to_owned(), found: Vec::new(), unreadable: Vec::new() };
        all.add_project(folder);
        for project in all.list(folder).into_iter().filter(|it| it.is_dir()) {
            all.add_project(&project);
        }
        all
    }

    /// Finds the one session whose main file is `file`.
    pub(crate) fn of_file(file: &Path) -> FoundSession {
        let folder = match file.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let mut all = Self { place: folder.to_owned(), found: Vec::new(), unreadable: Vec::new() };
        all.add_project(folder);
        let named = |it: &FoundSession| it.main.file_name() == file.file_name();
        let place = all.found.iter().position(named);
        place.map(|place| all.found.swap_remove(place)).unwrap_or_else(|| FoundSession {
            id: text(file.file_stem().unwrap_or_default()),
            project: String::new(),
            main: file.to_owned(),
            own: Vec::new(),
            beside: Rc::new([]),
        })
    }

    fn add_project(&mut self, folder: &Path) {
        let files: Vec<PathBuf> =
            self.list(folder).into_iter().filter(|it| has_ending(it, ".jsonl")).collect();
        let (agents, mains): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|it| name(it).starts_with("agent-"));
        let beside: Rc<[BesideFile]> = agents
            .into_iter()
            .map(|path| BesideFile { path, first_line: OnceCell::new() })
            .collect();
        for main in mains.into_iter().filter(|it| !it.is_dir()) {
            let own_folder = main.with_extension("").join("subagents");
            let mut own = Vec::new();
            if own_folder.is_dir() {
                self.add_subagents(&own_folder, DEPTH, &mut own);
            }
            self.found.push(FoundSession {
                id: text(main.file_stem().unwrap_or_default()),
                project: text(folder.file_name().unwrap_or_default()),
                main,
                own,
                beside: beside.clone(),
            });
        }
    }

    fn add_subagents(&mut self, folder: &Path, depth: usize, own: &mut Vec<PathBuf>) {
        for path in self.list(folder) {
            let is_link = path.symlink_metadata().is_ok_and(|it| it.is_symlink());
            if has_ending(&path, ".jsonl") || has_ending(&path, ".meta.json") {
                own.push(path);
            } else if depth > 0 && !is_link && path.is_dir() {
                self.add_subagents(&path, depth - 1, own);
            }
        }
    }

    /// Returns what is in a folder, by name. That there is no such folder is no mistake.
    fn list(&mut self, folder: &Path) -> Vec<PathBuf> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    self.unreadable.push((folder.to_owned(), error));
                }
                return Vec::new();
            }
        };
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        paths
    }
}

impl FoundSession {
    /// Returns when its main file was last written to.
    pub(crate) fn changed(&self) -> Option<SystemTime> {
        self.main.metadata().and_then(|it| it.modified()).ok()
    }

    /// Returns the files that make the session, the main one first, with the names that tell
    /// what each is. Opens those beside it, to see whose they are.
    pub(crate) fn files(&self) -> Vec<(String, &Path)> {
        let folder = self.main.parent().unwrap_or(Path::new(""));
        let mine = self.beside.iter().filter(|it| it.is_of(&self.id)).map(|it| it.path.as_path());
        let paths = self.own.iter().map(PathBuf::as_path).chain(mine);
        let mut named: BTreeMap<String, &Path> = paths
            .map(|path| {
                let inside = path.strip_prefix(folder).unwrap_or(path);
                (inside.to_string_lossy().replace('\\', "/"), path)
            })
            .collect();
        let main_name = name(&self.main);
        named.insert(main_name.clone(), &self.main);
        let names: Vec<&String> = named.keys().collect();
        let Some(files) = sessions(&names).into_iter().find(|it| it.main == main_name) else {
            return vec![(main_name, &self.main)];
        };
        let subagents = files.subagents.into_iter().flat_map(|it| [Some(it.path), it.meta]);
        let ordered = [Some(files.main)].into_iter().chain(subagents).flatten();
        ordered.filter_map(|name| named.get(&name).map(|path| (name, *path))).collect()
    }
}

impl BesideFile {
    fn is_of(&self, session: &str) -> bool {
        let first = self.first_line.get_or_init(|| read_first_line(&self.path).ok());
        // One that cannot be read is left to whoever reads the session, to say so.
        first.as_ref().is_none_or(|line| belongs_to(line, session))
    }
}

fn read_first_line(path: &Path) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    BufReader::new(File::open(path)?).read_until(b'\n', &mut line)?;
    Ok(line)
}

fn name(path: &Path) -> String {
    text(path.file_name().unwrap_or_default())
}

fn has_ending(path: &Path, ending: &str) -> bool {
    name(path).ends_with(ending)
}

fn text(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}
