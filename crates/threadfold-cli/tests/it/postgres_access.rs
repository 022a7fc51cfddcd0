//! Who may use a database, and what others see of it: roles, certificates, and secrets that appear
//! nowhere.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use threadfold_testkit::{Durability, PostgresServer};
use tokio::runtime::Runtime;

use crate::claude::Transcript;
use crate::cluster::{Node, NodePlace};
use crate::env::TestEnv;

fn server() -> PostgresServer {
    PostgresServer::start(Durability::Fast).unwrap()
}

/// Returns the password in an address.
fn password(url: &str) -> &str {
    url.split_once("threadfold:").unwrap().1.split_once('@').unwrap().0
}

#[test]
fn roles_with_few_rights_can_do_what_the_guide_says() {
    let (env, server) = (TestEnv::new(), server());
    let owner = server.url();
    Transcript::new("s1").prompt("Hello").says("Hi").keep(&env, "p");
    env.done(&["import", "--store", &owner]);
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/postgres.md");
    let guide = fs::read_to_string(guide).unwrap();
    // The statements that the guide shows.
    let grants = guide.split("```sql\n").nth(2).unwrap().split("```").next().unwrap();
    server
        .sql("CREATE ROLE writer LOGIN PASSWORD 'w'; CREATE ROLE reader LOGIN PASSWORD 'r'")
        .unwrap();
    server.sql(grants).unwrap();
    let as_role = |role: &str, secret: &str| {
        owner.replace(&format!("threadfold:{}@", password(&owner)), &format!("{role}:{secret}@"))
    };
    let (writer, reader) = (as_role("writer", "w"), as_role("reader", "r"));
    Transcript::new("s2").prompt("Hello").says("Hi").keep(&env, "p");
    env.done(&["import", "--store", &writer]);
    env.done(&["reindex", "--store", &writer]);
    env.done(&["gc", "--now", "--store", &writer]);
    env.done(&["rm", "--yes", "s1", "--store", &writer]);
    for command in [&["list"][..], &["view", "--no-pager", "s2"], &["doctor"]] {
        env.done(&[command, &["--store", &reader]].concat());
    }
    env.done(&["export", "s2", "--format", "events", "--store", &reader]);
    let refused = env.run(&["rm", "--yes", "s2", "--store", &reader]);
    assert!(refused.starts_with("exit 2") && refused.contains("permission denied"), "{refused}");
    let refused = env.run(&["import", "--store", &reader]);
    assert!(!refused.starts_with("exit 0"), "{refused}");
    // A table that a later version adds is readable and writable as well.
    server.sql("CREATE TABLE threadfold.later (x int)").unwrap();
    let rights = "SELECT has_table_privilege('writer', 'threadfold.later', 'INSERT'),
                         has_table_privilege('reader', 'threadfold.later', 'SELECT'),
                         has_table_privilege('reader', 'threadfold.later', 'INSERT')";
    assert_eq!(server.sql(rights).unwrap().trim(), "t|t|f");
    // A node needs no more than a writer.
    let (public_urls, network, sees_others) = (&[][..], None, true);
    let node =
        Node::start(&NodePlace { env: &env, store: &writer, public_urls, network, sees_others });
    assert_eq!(node.ask("GET", "/readyz").0, 200);
    assert_eq!(node.ask("POST", "/v1/tickets").0, 200);
}

/// Makes a certificate of its own for `localhost`, and lets the server use it.
fn encrypt(server: &mut PostgresServer, folder: &Path) {
    let run = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
        ])
        .args(["-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", "server.key", "-out"])
        .arg("server.crt")
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let owner = fs::metadata(server.data()).unwrap();
    for name in ["server.key", "server.crt"] {
        let place = server.data().join(name);
        fs::copy(folder.join(name), &place).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o600)).unwrap();
        chown(&place, Some(owner.uid()), Some(owner.gid())).unwrap();
    }
    server.sql("ALTER SYSTEM SET ssl = on").unwrap();
    server.stop_at_once();
    server.start_again().unwrap();
}

#[test]
fn a_certificate_must_be_of_the_server_where_the_address_says_so() {
    let (env, mut server) = (TestEnv::new(), server());
    encrypt(&mut server, &env.path(""));
    let root = env.path("server.crt").display().to_string();
    let by_name = server.url().replace("127.0.0.1", "localhost");
    let with = |url: &str, mode: &str| format!("{url}?sslmode={mode}");
    let verified = format!("{}&sslrootcert={root}", with(&by_name, "verify-full"));
    Transcript::new("s1").prompt("Hello").says("Hi").keep(&env, "p");
    env.done(&["import", "--store", &verified]);
    env.done(&["list", "--store", &with(&by_name, "require")]);
    env.done(&["list", "--store", &with(&by_name, "disable")]);
    let is_refused = |url: &str| {
        let told = env.run(&["list", "--store", url]);
        assert!(told.starts_with("exit 2") && told.contains("certificate"), "{told}");
    };
    // Not signed by anybody who is known here.
    is_refused(&with(&by_name, "verify-full"));
    // Of another name.
    is_refused(&verified.replace("localhost", "127.0.0.1"));
    // Of another server.
    let other = TestEnv::new();
    let run = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost", "-keyout", "key", "-out", "other.crt"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .current_dir(other.path(""))
        .output()
        .unwrap();
    assert!(run.status.success());
    is_refused(&verified.replace(&root, &other.path("other.crt").display().to_string()));
    // A server without encryption is refused as well, where it is required.
    server.sql("ALTER SYSTEM SET ssl = off").unwrap();
    server.sql("SELECT pg_reload_conf()").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    let told = env.run(&["list", "--store", &with(&by_name, "require")]);
    assert!(told.starts_with("exit 2"), "{told}");
    env.done(&["list", "--store", &with(&by_name, "prefer")]);
}

/// Returns all files below a folder that contain a text.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if let Ok(bytes) = fs::read(&path)
            && bytes.windows(text.len()).any(|it| it == text.as_bytes())
        {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn passwords_tokens_and_tickets_appear_nowhere() {
    let (env, mut server, runtime) = (TestEnv::new(), server(), Runtime::new().unwrap());
    let url = server.url();
    let password = password(&url).to_owned();
    // What the database logs is seen by its administrators: every statement with its values.
    server.sql("ALTER SYSTEM SET log_statement = 'all'").unwrap();
    server.sql("SELECT pg_reload_conf()").unwrap();
    let (public_urls, network, sees_others) = (&[][..], None, true);
    let place = NodePlace { env: &env, store: &url, public_urls, network, sees_others };
    let node = Node::start_with(&place, &["--log", "trace"]);
    let token = node.token().to_owned();
    let ticket = node.ask("POST", "/v1/tickets").1;
    let ticket: serde_json::Value = serde_json::from_str(&ticket).unwrap();
    let ticket = ticket["ticket"].as_str().unwrap().to_owned();
    let line = "{\"type\":\"session:idle\"}\n";
    runtime.block_on(node.client().push("s1", "test", 0, line.into(), false)).unwrap();
    let live = format!("ws://{}/v1/live?ticket={ticket}", node.address);
    let connected = runtime.block_on(tokio_tungstenite::connect_async(&live));
    assert!(connected.is_ok());
    // Used again, and so refused.
    assert!(runtime.block_on(tokio_tungstenite::connect_async(&live)).is_err());
    let mut told = vec![node.ask("GET", "/v1/status").1, node.ask("GET", "/metrics").1];
    let arguments = fs::read(format!("/proc/{}/cmdline", node.id())).unwrap();
    told.push(String::from_utf8_lossy(&arguments).into_owned());
    let dumped = server.sql("SELECT * FROM threadfold.tickets; SELECT * FROM threadfold.sessions");
    told.push(dumped.unwrap());
    let logged = server.logged();
    // Errors, of the node and of commands.
    server.stop_at_once();
    for path in ["/readyz", "/v1/sessions/s1", "/v1/sessions/s1/log"] {
        told.push(node.ask("GET", path).1);
    }
    let pushed = runtime.block_on(node.client().push("s1", "test", 0, line.into(), false));
    told.push(format!("{:?}", pushed.unwrap_err()));
    for command in [&["list"][..], &["import"], &["doctor"], &["copy", "--to", "x.db", "--from"]] {
        let mut run = env.command(command);
        if command[0] == "copy" {
            run.arg(&url);
        }
        let output = run.env("THREADFOLD_STORE", &url).env("RUST_BACKTRACE", "1").output().unwrap();
        assert!(!output.status.success());
        told.push(crate::env::seen(&output));
    }
    drop(node);
    let node_log = fs::read_to_string(env.path("node.log")).unwrap();
    assert!(node_log.contains("answered"), "every request is logged: {node_log}");
    assert!(logged.contains("INSERT INTO threadfold.tickets"), "every statement is logged");
    told.extend([node_log, logged, server.logged()]);
    for secret in [&password, &token, &ticket] {
        for text in &told {
            assert!(!text.contains(secret.as_str()), "{text}");
        }
        let found = files_with(&server.data(), secret);
        assert!(found.is_empty(), "in the files of the database: {found:?}");
    }
    // The search would find them.
    fs::write(server.data().join("marked"), &token).unwrap();
    assert_eq!(files_with(&server.data(), &token).len(), 1);
}
