//! Ids that are paths, flags, markup or no text: nothing is found, written or broken.

use crate::connection::{exchange, request};
use crate::server::{TOKEN, TestServer, block, file_store};

/// Returns hostile ids, percent-encoded.
fn ids() -> Vec<String> {
    let seeds: [&[u8]; 25] = [
        b"../../etc/passwd",
        b"..",
        b".",
        b"/etc/passwd",
        b"..\\..\\windows",
        b"-rf",
        b"--resume",
        b"--store=/tmp/x",
        b"$(id)",
        b"`id`",
        b"; rm -rf /",
        b"<script>alert(1)</script>",
        b"' OR 1=1 --",
        b"\"; DROP TABLE session; --",
        b"a\0b",
        b"\xff\xfe",
        b"\xc0\xae\xc0\xae/",
        b"%2e%2e%2f",
        "\u{202e}evil".as_bytes(),
        b"\r\nset-cookie: a=b",
        b"con/",
        b"s/../s",
        b" ",
        b"~root",
        b"C:\\x",
    ];
    let mut ids: Vec<Vec<u8>> = Vec::new();
    for seed in seeds {
        ids.push(seed.to_vec());
        for other in seeds {
            ids.push([seed, other].concat());
        }
        for times in [2, 3, 50, 200, 900] {
            ids.push(seed.repeat(times));
        }
        for byte in [0, 1, 10, 13, 27, 37, 47, 92, 127, 128, 255] {
            ids.push([seed, &[byte]].concat());
        }
    }
    let encode = |it: &Vec<u8>| it.iter().map(|byte| format!("%{byte:02X}")).collect::<String>();
    ids.iter().map(encode).filter(|it| it.len() < 12_000).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_hostile_ids_find_nothing_and_break_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = TestServer::start_with(file_store(&folder), |_| {}).await;
    server.session("s").emit(&[block("b", "text")]).await.unwrap();
    let ids = ids();
    assert!(ids.len() >= 1_000, "{}", ids.len());
    let headers = format!("host: {}\r\nauthorization: Bearer {TOKEN}\r\n", server.address);
    let paths = ["", "/state", "/events", "/log", "/export", "/verify", "/stream", "/blobs/00"];
    for (number, id) in ids.iter().enumerate() {
        let path = paths[number % paths.len()];
        for (method, path) in [
            ("GET", format!("/v1/sessions/{id}{path}")),
            ("DELETE", format!("/v1/sessions/{id}")),
            ("POST", format!("/v1/sessions/{id}/records?stream=x")),
            ("POST", format!("/v1/sessions/new/records?stream={id}")),
            ("GET", format!("/v1/sessions?after={id}&text={id}")),
            ("GET", format!("/v1/sessions/s/stream?after={id}")),
        ] {
            let (status, answer) =
                exchange(server.address, &request(method, &path, &headers)).await;
            let is_list = method == "GET" && path.starts_with("/v1/sessions?");
            let expected = if is_list { 200..=431 } else { 400..=431 };
            assert!(expected.contains(&status), "{method} {path}: {status} {answer}");
        }
    }
    let listed = server.json("/v1/sessions").await;
    assert_eq!(listed["total"], 1, "{listed}");
    assert_eq!(server.json("/v1/sessions/s").await["seq"], 1);
    let mut names: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|it| it.unwrap().file_name().into_string().unwrap())
        .collect();
    names.retain(|it| !it.starts_with("store.db"));
    assert_eq!(names, [""; 0], "nothing is written beside the store");
}
