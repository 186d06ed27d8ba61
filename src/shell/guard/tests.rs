use super::*;

fn given(value: &str) -> Option<String> {
    let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]);
    token(&headers)
}

#[test]
fn a_token_comes_by_itself_or_as_a_password_and_nothing_else_is_one() {
    let basic = |pair: &str| format!("Basic {}", BASE64_STANDARD.encode(pair));
    for (value, wanted) in [
        ("Bearer a.b.c".to_owned(), Some("a.b.c")),
        ("bearer  a.b.c ".to_owned(), Some("a.b.c")),
        (basic("anybody:a.b.c"), Some("a.b.c")),
        (basic(":a:b"), Some("a:b")),
        (basic("a.b.c"), None),
        (basic("anybody:"), None),
        ("Basic !!!".to_owned(), None),
        ("Digest a.b.c".to_owned(), None),
        ("a.b.c".to_owned(), None),
        ("Bearer ".to_owned(), None),
        (format!("Bearer {}", "x".repeat(LONGEST + 1)), None),
    ] {
        assert_eq!(given(&value).as_deref(), wanted, "{value:.40}");
    }
    assert_eq!(token(&HeaderMap::new()), None);
}

#[test]
fn one_right_is_for_all_of_the_page() {
    for (path, wanted) in [
        ("/status", "/status"),
        ("/status/", "/status"),
        ("/status/events", "/status"),
        ("/metrics", "/metrics"),
        ("/debug/state", "/debug/state"),
        ("/statuses", "/statuses"),
    ] {
        assert_eq!(area(path), wanted);
    }
}

#[test]
fn an_answer_holds_for_a_moment_and_only_so_many_are_remembered() {
    let (mut answers, start) = (Answers::default(), Instant::now());
    let question = |number: usize| ([0; 32], number.to_string());
    answers.put(question(0), start, Verdict::Allowed);
    assert_eq!(answers.get(&question(0), start + HOLDS / 2), Some(Verdict::Allowed));
    assert_eq!(answers.get(&question(1), start), None, "of another path nothing is known");
    assert_eq!(answers.get(&question(0), start + HOLDS), None);
    for number in 0..3 * REMEMBERED {
        answers.put(question(number), start, Verdict::Unknown);
        assert!(answers.0.len() <= REMEMBERED);
        assert_eq!(answers.get(&question(number), start), Some(Verdict::Unknown));
    }
}
