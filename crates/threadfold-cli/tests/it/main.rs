//! The program as a program: arguments in; stdout, stderr and exit code out.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must stop")]

mod claude;
mod doctor;
mod env;
mod export;
mod faults;
mod fold;
mod hostile;
mod import;
mod import_apart;
mod import_opencode;
mod import_whole;
mod kept;
mod kills;
mod list;
mod log;

mod older_store;
mod opencode;
mod opencode_forms;
mod opencode_hostile;
mod others;
mod pager;
mod pipes;
mod restore;
mod runs;
mod store_place;
mod terminal_safety;
mod unruly;
mod verify_claude;
mod view;
mod watch;
mod ways;
