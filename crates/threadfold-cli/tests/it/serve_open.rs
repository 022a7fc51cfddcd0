//! `serve --open`: the browser gets the link with the token, and nobody else sees the token.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::env::TestEnv;
use crate::serve::Serving;

/// Writes a program that stands in for the one that opens a browser: it notes what it was given.
fn opener(env: &TestEnv) {
    let notes = env.path("notes");
    let script = format!(
        "#!/bin/sh\necho \"$@\" > '{notes}.tmp'\ncat \"$1\" >> '{notes}.tmp'\nmv '{notes}.tmp' '{notes}'\n",
        notes = notes.display()
    );
    // One for each system.
    for name in ["bin/xdg-open", "bin/open"] {
        env.write(name, &script);
        fs::set_permissions(env.path(name), PermissionsExt::from_mode(0o755)).unwrap();
    }
}

fn wait_for(path: PathBuf) -> String {
    let start = Instant::now();
    loop {
        match fs::read_to_string(&path) {
            Ok(text) => return text,
            Err(error) => assert!(start.elapsed() < Duration::from_secs(30), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_browser_is_given_a_private_page_that_leads_to_the_link() {
    let env = TestEnv::new();
    opener(&env);
    let path = format!("{}:{}", env.path("bin").display(), std::env::var("PATH").unwrap());
    let server = Serving::start_configured(&env, "127.0.0.1:0", &["--open"], |command| {
        command.env("PATH", path);
    });
    let notes = wait_for(env.path("notes"));
    let token = fs::read_to_string(env.path("token")).unwrap();
    let (arguments, page) = notes.split_once('\n').unwrap();
    assert!(!arguments.contains(token.trim()), "other users can see the arguments: {arguments}");
    let link = format!("url={}/#token={}\"", server.address, token.trim());
    assert!(page.contains(&link), "{page}");
    let mode = fs::metadata(arguments).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_server_without_a_browser_goes_on() {
    let env = TestEnv::new();
    env.write("empty/file", "");
    let path = env.path("empty");
    let server = Serving::start_configured(&env, "127.0.0.1:0", &["--open"], |command| {
        command.env("PATH", path);
    });
    assert_eq!(server.get("/v1/status")["server"], "threadfold");
}
