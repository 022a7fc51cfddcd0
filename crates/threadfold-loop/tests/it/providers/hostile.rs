//! Servers that misbehave, intentionally or not.

use std::time::Duration;

use bytes::Bytes;
use threadfold_loop::{ProviderError, Timeouts};

use super::server::{Reply, Server};
use super::{KINDS, Kind, ask, error_of, line};

async fn text(kind: Kind, reply: Reply) -> Result<String, ProviderError> {
    let server = Server::start(vec![reply]);
    let answer = ask(&*kind.at(&server.address), "{}").await.0;
    answer.map(|it| it.message.to_text())
}

async fn failed(kind: Kind, reply: Reply) -> String {
    let server = Server::start(vec![reply]);
    error_of(&*kind.at(&server.address)).await
}

#[tokio::test]
async fn the_request_is_sent_verbatim() {
    let request =
        Bytes::from_static(b"{ \"z\":1e400, \"a\" : [\"\\ud83e\\udd80 \xf0\x9f\xa6\x80\"]\n}");
    for (kind, path, key) in [
        (Kind::Anthropic, "/v1/messages", "x-api-key: sk-secret-0123456789"),
        (Kind::Chat, "/v1/chat/completions", "authorization: Bearer sk-secret-0123456789"),
        (Kind::Responses, "/v1/responses", "authorization: Bearer sk-secret-0123456789"),
    ] {
        let server = Server::start(vec![Reply::body(kind.events("hi").concat())]);
        let provider = kind.at(&server.address);
        ask(&*provider, request.clone()).await.0.unwrap();
        let received = server.finish().remove(0);
        let (head, body) = received.split_at(received.len() - request.len());
        assert_eq!(body, request);
        let head = String::from_utf8(head.to_vec()).unwrap();
        assert!(head.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{head}");
        assert!(head.contains(&format!("{key}\r\n")), "{head}");
        assert!(head.contains("content-type: application/json\r\n"), "{head}");
        let version = head.contains("anthropic-version: 2023-06-01\r\n");
        assert_eq!(version, kind == Kind::Anthropic);
    }
}

#[tokio::test]
async fn the_path_is_appended_to_any_form_of_address() {
    for (kind, below, path) in [
        (Kind::Anthropic, "/", "/v1/messages"),
        (Kind::Anthropic, "/v1", "/v1/messages"),
        (Kind::Anthropic, "/gateway/", "/gateway/v1/messages"),
        (Kind::Chat, "/v1/", "/v1/chat/completions"),
        (Kind::Chat, "/openai/v4?a=b", "/openai/v4/chat/completions?a=b"),
        (Kind::Responses, "/api/v1", "/api/v1/responses"),
    ] {
        let server = Server::start(vec![Reply::body(kind.events("hi").concat())]);
        let provider = kind.at(&format!("{}{below}", server.address));
        ask(&*provider, "{}").await.0.unwrap();
        let received = String::from_utf8(server.finish().remove(0)).unwrap();
        assert!(received.starts_with(&format!("POST {path} ")), "{received}");
    }
}

#[tokio::test]
async fn text_may_be_split_at_any_byte() {
    let words = "größer 🦀\u{2028}漢字\r\n\u{0}";
    for kind in KINDS {
        for size in 1..=5 {
            let body = kind.events(words).concat();
            let received = text(kind, Reply::chunked(body.as_bytes(), size)).await.unwrap();
            assert_eq!(received, words, "{kind:?} in pieces of {size}");
        }
    }
}

#[tokio::test]
async fn a_lone_surrogate_causes_no_retry() {
    for kind in KINDS {
        let body = kind.events("half").concat().replace("half", r"a\ud83db");
        assert_eq!(text(kind, Reply::body(body)).await.unwrap(), "a\u{fffd}b", "{kind:?}");
    }
}

#[tokio::test]
async fn the_format_of_the_stream_does_not_matter() {
    for kind in KINDS {
        let plain = kind.events("hi").concat();
        let spellings = [
            format!("\u{feff}{plain}"),
            plain.replace('\n', "\r\n"),
            plain.replace("data: ", "data:"),
            format!(": hello\n\nid: 7\nretry: 9\n{plain}"),
            format!("data:\n\n{plain}"),
            plain.trim_end().to_owned(),
        ];
        for spelling in spellings {
            let received = text(kind, Reply::chunked(spelling.as_bytes(), 3)).await;
            assert_eq!(received.unwrap(), "hi", "{kind:?} {spelling:?}");
        }
    }
}

#[tokio::test]
async fn a_truncated_stream_is_an_error_at_any_point() {
    for kind in KINDS {
        let events = kind.events("hi");
        for count in 0..events.len() {
            for reply in [Reply::body, |body: String| Reply::chunked(body.as_bytes(), 64)] {
                let received = failed(kind, reply(events[..count].concat())).await;
                let name = kind.at("http://a").name().to_owned();
                let broken = format!(
                    "broken: the answer of {name} is incomplete: the stream ended before the answer was complete"
                );
                assert_eq!(received, broken, "{kind:?} after {count}");
            }
        }
    }
}

#[tokio::test]
async fn a_complete_stream_is_not_awaited_further() {
    for kind in KINDS {
        let mut body = kind.events("hi").concat();
        if kind == Kind::Chat {
            body += "data: [DONE]\n\n";
        }
        assert_eq!(text(kind, Reply::body(body).held()).await.unwrap(), "hi");
    }
}

#[tokio::test]
async fn a_body_that_is_neither_stream_nor_json_is_an_error() {
    for kind in KINDS {
        let first = kind.events("hi")[..1].concat();
        for (odd, cause) in [
            ("data: {\"type\":\n\n".as_bytes().to_vec(), "unexpected JSON"),
            (b"data: 7\n\n".to_vec(), "unexpected JSON"),
            (b"data: \xff\xfe\n\n".to_vec(), "the response is not valid UTF-8"),
            (
                b"<html>Log in here</html>".to_vec(),
                "the stream ended before the answer was complete",
            ),
        ] {
            let received = failed(kind, Reply::body([first.as_bytes(), &odd].concat())).await;
            assert!(
                received.starts_with("broken: ") && received.contains(cause),
                "{kind:?} {received}"
            );
        }
        for whole in ["{", "{}", "{\"a\":\"\u{0}\"}", "{\"content\":7,\"output\":7,\"choices\":7}"]
        {
            let received = failed(kind, Reply::body(whole)).await;
            assert!(received.starts_with("broken: "), "{kind:?} {received}");
        }
    }
}

#[tokio::test]
async fn timeouts_and_failed_connections_are_errors() {
    let short = Duration::from_millis(60);
    let idle = Timeouts { idle: short, ..Timeouts::default() };
    for kind in KINDS {
        let first = kind.events("hi")[..1].concat();
        for reply in [Reply::bytes("").held(), Reply::body(first).held()] {
            let server = Server::start(vec![reply]);
            let received = error_of(&*kind.with(&server.address, idle)).await;
            assert!(received.ends_with("is incomplete: no data for 60ms"), "{received}");
        }
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Nobody answers the TLS handshake, so there is never a connection.
    let connect = Timeouts { connect: short, ..Timeouts::default() };
    let received = error_of(&*Kind::Chat.with(&format!("https://{address}"), connect)).await;
    assert!(received.contains("is incomplete: connecting failed"), "{received}");
    drop(listener);
    let received = error_of(&*Kind::Chat.at(&format!("http://{address}"))).await;
    assert!(received.contains("is incomplete: connecting failed"), "{received}");
}

#[tokio::test]
async fn an_endless_answer_is_given_up() {
    const MEGABYTE: usize = 1024 * 1024;
    let lines = format!(": {}\n", "x".repeat(99));
    for (start, filling) in [("data: ", "x"), ("{\"a\":\"", "x"), ("", &*lines)] {
        let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{start}").into_bytes();
        let filling = filling.repeat(MEGABYTE / filling.len()).into_bytes();
        let pieces = std::iter::once(head).chain(std::iter::repeat_n(filling, 600));
        let received = failed(Kind::Anthropic, Reply::pieces(pieces)).await;
        let expected = match start {
            "" => "is incomplete: the response exceeds 536870912 bytes",
            _ => "has more than 6291456 bytes",
        };
        assert!(received.ends_with(expected), "{received}");
    }
    // A stream of many pieces: what they say together counts.
    let received = failed(Kind::Anthropic, Reply::pieces(streamed_answer(200).into_iter())).await;
    assert!(received.ends_with("has more than 6291456 bytes"), "{received}");
}

/// Returns an answer of `count` pieces of 256 KiB, which ends.
fn streamed_answer(count: usize) -> Vec<Vec<u8>> {
    let event = |json: &str| format!("data: {json}\n\n").into_bytes();
    let text = "x".repeat(256 << 10);
    let piece = event(&format!(
        r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}"#
    ));
    let mut pieces = vec![
        b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".to_vec(),
        event(r#"{"type":"message_start","message":{"id":"m","role":"assistant","content":[]}}"#),
        event(
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        ),
    ];
    pieces.extend(std::iter::repeat_n(piece, count));
    pieces.push(event(r#"{"type":"content_block_stop","index":0}"#));
    pieces.push(event(r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#));
    pieces.push(event(r#"{"type":"message_stop"}"#));
    pieces
}

#[tokio::test]
async fn an_answer_of_6_megabytes_is_accepted() {
    let answer =
        text(Kind::Anthropic, Reply::pieces(streamed_answer(23).into_iter())).await.unwrap();
    assert_eq!(answer.len(), 23 * (256 << 10));
}

#[tokio::test]
async fn retry_after_headers_are_honoured() {
    let later = "date: Wed, 21 Oct 2015 07:28:00 GMT\r\n\
                 retry-after: Wed, 21 Oct 2015 07:28:30 GMT\r\n";
    for (headers, after) in [
        ("retry-after: 3\r\n", Some(Duration::from_secs(3))),
        (later, Some(Duration::from_secs(30))),
        ("retry-after-ms: 1500\r\nretry-after: 2\r\n", Some(Duration::from_millis(1500))),
        ("", None),
    ] {
        for kind in KINDS {
            let server = Server::start(vec![Reply::status(429, headers, "{}")]);
            let error = ask(&*kind.at(&server.address), "{}").await.0.unwrap_err();
            assert_eq!(error.retry_after(), after, "{}", line(&error));
            assert!(error.is_transient());
        }
    }
}

#[tokio::test]
async fn a_refusal_contains_the_providers_message() {
    for (body, output) in [
        (r#"{"error":{"message":"too long","type":"invalid_request_error"}}"#, "too long"),
        (r#"{"type":"error","error":{"type":"x","message":"too long"}}"#, "too long"),
        (r#"{"error":"too long"}"#, "too long"),
        (r#"{"detail":"too long"}"#, "too long"),
        ("too long", "too long"),
        ("", ""),
    ] {
        let received = failed(Kind::Chat, Reply::status(400, "", body)).await;
        let output = if output.is_empty() { "Bad Request" } else { output };
        assert_eq!(received, format!("refused: openai-chat refused the request (400): {output}"));
    }
}

#[tokio::test]
async fn an_exhausted_quota_is_not_retried() {
    let body =
        r#"{"error":{"message":"pay","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    for reply in [Reply::status(429, "", body), Reply::body(body)] {
        let received = failed(Kind::Chat, reply).await;
        assert_eq!(received, "refused: openai-chat refused the request (402): pay");
    }
}

#[tokio::test]
async fn an_error_object_instead_of_an_answer_is_an_error() {
    for (body, received) in [
        (r#"{"error":{"code":429,"message":"slow down"}}"#, "busy: {} is busy (429): slow down"),
        (
            r#"{"error":{"type":"invalid_request_error","message":"no"}}"#,
            "refused: {} refused the request (400): no",
        ),
        (r#"{"error":{"message":"odd"}}"#, "busy: {} is busy (500): odd"),
    ] {
        for kind in KINDS {
            let name = kind.at("http://a").name().to_owned();
            let expected = received.replace("{}", &name);
            assert_eq!(failed(kind, Reply::body(body)).await, expected);
        }
    }
}
