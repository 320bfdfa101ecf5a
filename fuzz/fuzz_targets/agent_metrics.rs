//! HTTP requests for metrics: each client gets at most one answer, and the metrics only for a GET or HEAD of their path.
//!
//! Input: the octets of a request.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use wireseal_agent::Status;
use wireseal_agent::fuzzing::answer_to;

static STATUS: LazyLock<Status> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../corpus/agent_status/gateway")).expect("a status in JSON")
});

fuzz_target!(|request: &[u8]| {
    let answer = answer_to(STATUS.clone(), request);
    if answer.is_empty() {
        return;
    }
    let text = String::from_utf8(answer).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let mut words = head.split(' ');
    assert!(matches!(words.next(), Some("HTTP/1.0" | "HTTP/1.1")), "{head}");
    assert!(!body.contains("HTTP/1."), "one answer only: {text}");
    let status = words.next().expect("a number");
    assert!(matches!(status, "200" | "400" | "404" | "405" | "414" | "431" | "501"), "{head}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let request = String::from_utf8_lossy(request);
    let is_head = request.trim_start_matches(['\r', '\n']).starts_with("HEAD ");
    if let Some(length) = length
        && !is_head
    {
        assert_eq!(length.parse(), Ok(body.len()), "{head}");
    }
    let has_metrics = body.contains("wireseal_");
    assert_eq!(has_metrics, status == "200" && !is_head, "{text}");
    if status == "200" {
        assert!(
            request.contains("/metrics") && (request.contains("GET ") || request.contains("HEAD ")),
            "{request}"
        );
    }
});
