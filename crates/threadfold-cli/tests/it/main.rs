//! The program as a program: arguments in; stdout, stderr and exit code out.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must stop")]

#[cfg(target_os = "linux")]
mod bounds;
mod claude;
#[cfg(target_os = "linux")]
mod cluster;
#[cfg(target_os = "linux")]
mod cluster_faults;
#[cfg(target_os = "linux")]
mod cluster_soak;
mod codex;
mod corrupt;
mod doctor;
mod env;
mod export;
mod faults;
mod fold;
#[cfg(target_os = "linux")]
mod full_disk;
mod hostile;
mod import;
mod import_files;
mod import_identity;
mod import_opencode;
mod input_forms;
mod input_paths;
mod kills;
mod list;
mod listing_cost;
mod live_clients;
mod log;
mod older_store;
mod opencode;
mod opencode_forms;
mod opencode_hostile;
mod opencode_newer;
mod opening_cost;
mod pager;
mod pipes;
#[cfg(unix)]
mod postgres;
#[cfg(target_os = "linux")]
mod postgres_access;
mod reads;
mod restore;
mod runs;
mod salvage;
mod same_sessions;
mod serve;
mod serve_agents;
mod serve_open;
#[cfg(target_os = "linux")]
mod serve_slow;
mod serve_soak;
mod store_location;
mod store_size;
mod stored;
mod strange_servers;
mod taken_for;
mod terminal_safety;
mod trust;
mod unchanged;
mod unfinished;
mod unknown_agents;
mod unread;
mod verify_claude;
mod view;
mod view_noise;
mod view_server;
mod watch;
mod watch_folder;
mod watch_wakeups;
mod widths;
