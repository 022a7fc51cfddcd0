//! A key is sent to its provider and nowhere else.

use threadfold_loop::{AccessError, Anthropic, Key, OpenAiChat, OpenAiResponses, Provider};

use super::server::{Reply, Server};
use super::{KEY, KINDS, ask, line};

#[test]
fn a_key_is_never_printed() {
    let key = || Key::new(KEY).unwrap();
    let address = "http://127.0.0.1:1";
    let shown = [
        format!("{} {:?} {:#?}", key(), key(), key()),
        format!("{:#?}", Anthropic::new(address, key()).unwrap()),
        format!("{:#?}", OpenAiChat::new(address, key()).unwrap()),
        format!("{:?}", OpenAiResponses::new(address, key()).unwrap()),
    ];
    assert!(!shown.concat().contains("secret"), "{shown:?}");
}

#[tokio::test]
async fn an_error_never_contains_the_key() {
    for kind in KINDS {
        let received = format!("{{\"error\":{{\"message\":\"no such key: {KEY}\"}}}}");
        let replies = [
            Reply::status(401, "", &received),
            Reply::status(400, "", &format!("what is {KEY}?")),
            Reply::status(429, "", &received),
            Reply::status(307, &format!("location: http://a/{KEY}\r\n"), ""),
            Reply::body(&received),
            Reply::body(format!("data: {received}\n\n")),
            Reply::body(format!("data: \"{KEY}\"\n\n")),
            Reply::body(format!("data: {{\"type\":\"error\",\"error\":\"{KEY}\"}}\n\n")),
            Reply::body(format!(
                "{{\"content\":\"{KEY}\",\"output\":\"{KEY}\",\"choices\":\"{KEY}\"}}"
            )),
            Reply::status(200, "content-encoding: \u{7f}\r\nx", KEY),
        ];
        for reply in replies {
            let server = Server::start(vec![reply]);
            let error = ask(&*kind.at(&server.address), "{}").await.0.unwrap_err();
            let shown = format!("{} {error:?}", line(&error));
            assert!(!shown.contains(KEY), "{kind:?} {shown}");
        }
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    for kind in KINDS {
        let elsewhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        elsewhere.set_nonblocking(true).unwrap();
        let target = elsewhere.local_addr().unwrap();
        for status in [301, 302, 303, 307, 308] {
            let location = format!("location: http://{target}/v1\r\n");
            let server = Server::start(vec![Reply::status(status, &location, "")]);
            let error = ask(&*kind.at(&server.address), "{}").await.0.unwrap_err();
            assert!(line(&error).starts_with("refused: "), "{}", line(&error));
            assert!(elsewhere.accept().is_err(), "somebody came by");
        }
    }
}

#[test]
fn a_key_can_be_read_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, format!("\n {KEY} \n")).unwrap();
    let open = Key::from_file(&path).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;

        for (mode, is_exposed) in [(0o600, false), (0o640, true), (0o604, true)] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(Key::from_file(&path).unwrap().is_exposed(), is_exposed, "{mode:o}");
        }
    }
    drop(open);
    std::fs::write(&path, " \n").unwrap();
    assert!(matches!(Key::from_file(&path), Err(AccessError::KeyMissing)));
    std::fs::write(&path, "two words").unwrap();
    assert!(matches!(Key::from_file(&path), Err(AccessError::KeyUnreadable)));
    let missing = Key::from_file(&folder.path().join("none"));
    assert!(matches!(missing, Err(AccessError::KeyFile { .. })));
}

#[test]
fn an_invalid_address_is_reported() {
    let key = || Key::new(KEY).unwrap();
    for address in ["", "api.anthropic.com", "ftp://a", "file:///a"] {
        let error = Anthropic::new(address, key()).unwrap_err();
        assert!(matches!(error, AccessError::Address { .. }), "{error}");
    }
    let error = Anthropic::new("https://me:hidden@host", key()).unwrap_err().to_string();
    assert_eq!(
        error,
        "`host` is not a valid provider address: it contains a user name or password"
    );
}

#[test]
fn request_parameters_can_be_set() {
    use threadfold_core::Json;

    let key = || Key::new(KEY).unwrap();
    let address = "http://127.0.0.1:1";
    let all: [Box<dyn Provider>; 4] = [
        Box::new(Anthropic::new(address, key()).unwrap()),
        Box::new(OpenAiChat::new(address, key()).unwrap()),
        Box::new(OpenAiResponses::new(address, key()).unwrap()),
        Box::new(
            Anthropic::new(address, key())
                .unwrap()
                .with_parameters(Json::parse(r#"{ "max_tokens": 1 }"#).unwrap()),
        ),
    ];
    assert_eq!(
        all.map(|it| it.parameters().to_string()),
        [
            r#"{"max_tokens":16384}"#,
            r#"{"stream_options":{"include_usage":true}}"#,
            r#"{"store":false,"include":["reasoning.encrypted_content"]}"#,
            r#"{ "max_tokens": 1 }"#,
        ]
    );
}
