//! `docs/admission.md` says what admission says.

use serde_json::Value;

use super::{Answer, Hub, objects};
use crate::decide::admit::Operation;

const PAGE: &str = include_str!("../../../../docs/admission.md");

/// A fenced block: what follows the fence, and its lines without the page's indentation.
struct Block {
    info: String,
    text: String,
}

fn blocks() -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = PAGE.lines();
    while let Some(line) = lines.next() {
        let Some((indent, info)) = line.split_once("```") else { continue };
        let body = lines.by_ref().take_while(|line| line.trim() != "```");
        let body: Vec<_> = body.map(|line| line.strip_prefix(indent).unwrap_or(line)).collect();
        blocks.push(Block { info: info.to_owned(), text: body.join("\n") });
    }
    blocks
}

/// As kubectl shows it.
fn shown(answer: &Answer) -> String {
    if answer.verdict.allowed() {
        let warnings = answer.verdict.warnings.iter().map(|warning| format!("Warning: {warning}"));
        return warnings.collect::<Vec<_>>().join("\n");
    }
    answer.message()
}

#[test]
fn every_example_gets_the_answer_that_the_page_shows() {
    let (mut hub, mut stored, mut answer) = (Hub::empty(), Vec::<Value>::new(), None);
    let mut examples = 0;
    for block in blocks() {
        if block.info == "text" {
            assert_eq!(shown(&answer.take().expect("an answer has a request")), block.text);
            examples += 1;
            continue;
        }
        if block.info == "console" {
            continue;
        }
        assert!(answer.is_none(), "a request has an answer, before {}", block.text);
        if block.info == "yaml hub" {
            hub.add(&block.text);
            stored.extend(objects(&block.text));
            continue;
        }
        let object = objects(&block.text).remove(0);
        let same = |other: &&Value| {
            other["kind"] == object["kind"] && other["metadata"]["name"] == object["metadata"]["name"]
        };
        let old = stored.iter().find(same).cloned();
        answer = Some(match block.info.as_str() {
            "yaml create" => hub.ask(Operation::Create, Some(object), None),
            "yaml update" => hub.ask(Operation::Update, Some(object), old),
            "yaml delete" => hub.ask(Operation::Delete, None, old),
            other => panic!("{other} is no kind of example"),
        });
    }
    assert!(examples >= 9, "the page has {examples} examples");
}
