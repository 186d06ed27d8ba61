//! A plan as text: first what it comes to, then the changes by cluster, then what is refused and what it warns of.

use std::collections::BTreeMap;

use crate::{
    cli::paint::{Cell, Paint, Table, Tone, wrapped},
    decide::plan::{CopyAction, Outcome, Plan, ServiceChange},
};

/// What the hub is called in a list of clusters.
const HUB: &str = "hub";

/// All of it.
pub(super) fn shown(plan: &Plan, paint: Paint) -> String {
    let width = paint.width();
    let (tone, text) = headline(plan);
    let mut text = paint.text(tone, &wrapped(&text, width, 0, 2)) + "\n";
    let table = changes(plan);
    if !table.is_empty() {
        let lines = table.lines(paint, width);
        text += &lines.into_iter().fold("\n".to_owned(), |text, line| text + &line + "\n");
    }
    text += &part("Refused", Tone::Bad, refusals(plan), paint);
    text += &part("Policies that hold for other objects", Tone::Plain, hands(plan), paint);
    text += &part("Conflicts", Tone::Bad, conflicts(plan), paint);
    text += &part("Warnings", Tone::Waiting, warnings(plan), paint);
    text
}

/// What it comes to, in a line.
fn headline(plan: &Plan) -> (Tone, String) {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let hub = plan.objects.iter().filter_map(|document| Some((HUB, outcome(document.outcome)?.1)));
    let members = plan.copies.iter().map(|copy| (copy.cluster.as_str(), action(copy.action).1));
    for of in hub.filter(|(_, what)| *what != "refuse").chain(members) {
        *counts.entry(of).or_default() += 1;
    }
    let mut clusters: BTreeMap<(bool, &str), Vec<String>> = BTreeMap::new();
    for ((cluster, what), number) in counts {
        clusters.entry((cluster != HUB, cluster)).or_default().push(format!("{number} to {what}"));
    }
    for service in &plan.services {
        for (places, what) in [(&service.appears_in, "appears"), (&service.disappears_in, "goes")] {
            for cluster in places {
                clusters
                    .entry((true, cluster))
                    .or_default()
                    .push(format!("Service {} {what}", service.derived));
            }
        }
    }
    let changes: Vec<_> =
        clusters.into_iter().map(|((_, cluster), what)| format!("{cluster}: {}", what.join(", "))).collect();
    let changes = if changes.is_empty() { "nothing would change".to_owned() } else { changes.join("; ") };
    match plan.refused() {
        0 => (if plan.warnings.is_empty() { Tone::Good } else { Tone::Waiting }, changes),
        refused => {
            let all = plan.objects.len();
            (Tone::Bad, format!("{refused} of {all} objects would be refused; {changes}"))
        }
    }
}

fn changes(plan: &Plan) -> Table {
    let mut table = Table::new(&["CLUSTER", "WOULD", "OBJECT", "WHY"]);
    for document in &plan.objects {
        let Some((tone, what)) = outcome(document.outcome) else { continue };
        table.row([
            Cell::plain(HUB),
            Cell::toned(tone, what),
            Cell::plain(document.object.to_string()),
            Cell::plain(document.fields.join(", ")),
        ]);
    }
    let mut rows: Vec<(&str, [Cell; 3])> = Vec::new();
    for copy in &plan.copies {
        let (tone, what) = action(copy.action);
        let fields = copy.fields.join(", ");
        let why = match (copy.why.as_str(), fields.as_str()) {
            (why, "") => why.to_owned(),
            ("", fields) => fields.to_owned(),
            (why, fields) => format!("{why}: {fields}"),
        };
        rows.push((
            &copy.cluster,
            [Cell::toned(tone, what), Cell::plain(copy.object.to_string()), Cell::plain(why)],
        ));
    }
    plan.services.iter().for_each(|service| rows.extend(imports(service)));
    rows.sort_by_key(|(cluster, _)| *cluster);
    for (cluster, cells) in rows {
        table.row(std::iter::once(Cell::plain(cluster)).chain(cells));
    }
    table
}

/// What becomes of a service in each cluster.
fn imports(service: &ServiceChange) -> Vec<(&str, [Cell; 3])> {
    let ServiceChange { namespace, name, derived, .. } = service;
    let object = || Cell::plain(format!("Service {namespace}/{derived}"));
    let from: Vec<_> = service.exported_by.keys().map(String::as_str).collect();
    let from = if from.is_empty() { "nobody yet".to_owned() } else { from.join(", ") };
    let mut rows: Vec<(&str, [Cell; 3])> = Vec::new();
    for (cluster, ports) in &service.imported_by {
        let (tone, what) = if service.appears_in.contains(cluster) {
            (Tone::Good, "import")
        } else {
            (Tone::Waiting, "reimport")
        };
        let ports = if ports.is_empty() { "no ports" } else { ports };
        let why = format!("{namespace}/{name} from {from}: {ports}");
        rows.push((cluster, [Cell::toned(tone, what), object(), Cell::plain(why)]));
    }
    for cluster in &service.disappears_in {
        let why = format!("{namespace}/{name} is not imported there any more");
        rows.push((cluster, [Cell::toned(Tone::Bad, "unimport"), object(), Cell::plain(why)]));
    }
    rows
}

fn refusals(plan: &Plan) -> Vec<String> {
    let refused = plan.objects.iter().filter_map(|document| {
        let why = document.refusal.as_ref()?;
        Some(if why.contains(&document.object.name) {
            why.clone()
        } else {
            format!("{}: {why}", document.object)
        })
    });
    refused.collect()
}

fn hands(plan: &Plan) -> Vec<String> {
    let said = plan.policies.iter().map(|hands| {
        let by = |policy: &Option<String>| policy.clone().unwrap_or_else(|| "no policy".to_owned());
        let why = hands.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        format!("{}: {} instead of {}{why}", hands.object, by(&hands.after), by(&hands.before))
    });
    said.collect()
}

fn conflicts(plan: &Plan) -> Vec<String> {
    let mut said = Vec::new();
    for service in &plan.services {
        let of = format!("{}/{}", service.namespace, service.name);
        said.extend(service.conflict.iter().map(|conflict| format!("{of}: {conflict}")));
        said.extend(service.dropped.iter().map(|dropped| format!("{of}: dropped: {dropped}")));
    }
    said
}

fn warnings(plan: &Plan) -> Vec<String> {
    let own = plan.objects.iter().flat_map(|document| {
        document.warnings.iter().map(move |warning| format!("{}: {warning}", document.object))
    });
    own.chain(plan.warnings.iter().cloned()).collect()
}

/// A part with a title, its lines broken where somebody looks.
fn part(title: &str, tone: Tone, said: Vec<String>, paint: Paint) -> String {
    if said.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}\n", paint.text(Tone::Title, title));
    for said in said {
        for (number, line) in said.lines().enumerate() {
            let indent = if number == 0 { 2 } else { 4 };
            let line = wrapped(line, paint.width(), indent, 4);
            let line = if number == 0 { paint.text(tone, &line) } else { line };
            text += &format!("{}{line}\n", " ".repeat(indent));
        }
    }
    text
}

/// What would happen on the hub, in a word; none if nothing would.
fn outcome(outcome: Outcome) -> Option<(Tone, &'static str)> {
    match outcome {
        Outcome::Create => Some((Tone::Good, "create")),
        Outcome::Change => Some((Tone::Waiting, "change")),
        Outcome::Delete => Some((Tone::Bad, "delete")),
        Outcome::Refused => Some((Tone::Bad, "refuse")),
        Outcome::Unchanged => None,
    }
}

fn action(action: CopyAction) -> (Tone, &'static str) {
    match action {
        CopyAction::Create => (Tone::Good, "create"),
        CopyAction::Change => (Tone::Waiting, "change"),
        CopyAction::Delete => (Tone::Bad, "delete"),
        CopyAction::LetGo => (Tone::Waiting, "let go"),
        CopyAction::Keep => (Tone::Plain, "keep"),
        CopyAction::HoldBack => (Tone::Waiting, "hold back"),
        CopyAction::Fail => (Tone::Bad, "fail"),
    }
}
