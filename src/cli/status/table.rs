//! A status as tables, one for each part.

use k8s_openapi::jiff::Timestamp;

use crate::{
    cli::paint::{Cell, Paint, Table, Tone, age, shortened},
    decide::overview::{Export, Import, Member, MemberService, Overview, Policy},
};

/// As many problems as `table` shows.
const PROBLEMS: usize = 10;

/// All of it, on a terminal cut to its width. `wide` has more columns and cuts nothing.
pub(super) fn shown(
    found: &Overview,
    namespace: Option<&str>,
    now: Timestamp,
    paint: Paint,
    wide: bool,
) -> String {
    let width = paint.width().filter(|_| !wide);
    let place = namespace.map_or(String::new(), |own| format!(" in namespace {own}, -A shows all"));
    let ago = |since: Option<Timestamp>| {
        Cell::plain(since.map_or_else(|| "-".to_owned(), |since| age(now.as_second() - since.as_second())))
    };
    let mut blocks = vec![hub(found, paint, width)];
    let mut block = |table: Table, empty: bool, what: &str, place: &str| {
        blocks.push(if empty {
            format!("no {what}{place}\n")
        } else {
            table.lines(paint, width).into_iter().map(|line| line + "\n").collect()
        });
    };
    let members = members(&found.members, ago, wide);
    block(members, found.members.is_empty(), "members", ": `tombolo join` makes one");
    block(policies(&found.policies, wide), found.policies.is_empty(), "policies", &place);
    block(exports(&found.exports, ago, wide), found.exports.is_empty(), "exports on the hub", &place);
    block(imports(&found.imports, ago, wide), found.imports.is_empty(), "imports on the hub", &place);
    if let Some(services) = &found.services {
        let what = "exports of members that the hub has not";
        block(shared(services, ago, wide), services.is_empty(), what, &place);
    }
    if !found.conflicts.is_empty() {
        let mut table = Table::new(&["CONFLICT", "ON", "MESSAGE"]);
        for conflict in &found.conflicts {
            let name = format!("{}/{}", conflict.namespace, conflict.name);
            table.row([
                Cell::plain(name),
                Cell::toned(Tone::Bad, conflict.reason.replace(',', ", ")),
                Cell::plain(conflict.message.as_str()),
            ]);
        }
        block(table, false, "conflicts", "");
    }
    blocks.push(problems(found, &place, paint, wide, width));
    blocks.join("\n")
}

fn hub(found: &Overview, paint: Paint, width: Option<usize>) -> String {
    let leader = found.hub.leader.as_deref().unwrap_or("nobody");
    let (tone, text) = if found.hub.at_work {
        (Tone::Good, format!("hub: {leader} is at work"))
    } else {
        (Tone::Bad, "hub: none is at work".to_owned())
    };
    paint.text(tone, &shortened(&text, width.unwrap_or(usize::MAX))) + "\n"
}

/// What a condition says; `-` where it says nothing.
fn said(said: &str, bad: &str) -> Cell {
    Cell::toned(Tone::of(said, bad), if said.is_empty() { "-" } else { said })
}

fn number(number: i64, bad: bool) -> Cell {
    Cell::toned(if bad && number > 0 { Tone::Bad } else { Tone::Plain }, number.to_string())
}

/// The titles of a table, with one for messages if there is room.
fn table(titles: &[&str], wide: bool) -> Table {
    let more: &[&str] = if wide { &["MESSAGE"] } else { &[] };
    Table::new(&[titles, more].concat())
}

fn message(text: &str, wide: bool) -> Option<Cell> {
    wide.then(|| Cell::plain(text))
}

fn members(members: &[Member], ago: impl Fn(Option<Timestamp>) -> Cell, wide: bool) -> Table {
    let titles = ["MEMBER", "READY", "AGENT", "TRUSTED", "VERSION", "COPIES", "PENDING", "FAILED", "SINCE"];
    let mut table = table(&titles, wide);
    for member in members {
        let ready =
            if member.leaving { Cell::toned(Tone::Waiting, "Leaving") } else { said(&member.ready, "False") };
        let cells = [
            Cell::plain(member.name.as_str()),
            ready,
            said(&member.agent, "False"),
            said(&member.trusted, "False"),
            Cell::plain(if member.version.is_empty() { "-" } else { &member.version }),
            number(member.applied, false),
            lag(member),
            number(member.failed, true),
            ago(member.since),
        ];
        table.row(cells.into_iter().chain(message(&member.message, wide)));
    }
    table
}

/// What is on its way to a member, and whether there may be more to come.
fn lag(member: &Member) -> Cell {
    let more = if member.behind > 0 { "+" } else { "" };
    let tone = if member.pending + member.behind > 0 { Tone::Waiting } else { Tone::Plain };
    Cell::toned(tone, format!("{}{more}", member.pending))
}

fn policies(policies: &[Policy], wide: bool) -> Table {
    let mut table = table(&["POLICY", "STATE", "OBJECTS", "COPIES", "FAILED"], wide);
    for policy in policies {
        let name = policy.namespace.as_ref().map_or_else(
            || format!("{} (cluster-wide)", policy.name),
            |namespace| format!("{namespace}/{}", policy.name),
        );
        let tone = match (policy.is_well(), policy.failed) {
            (true, _) => Tone::Good,
            (false, 0) => Tone::Waiting,
            (false, _) => Tone::Bad,
        };
        let cells = [
            Cell::plain(name),
            Cell::toned(tone, policy.reason.as_str()),
            number(policy.matched.into(), false),
            number(policy.applied, false),
            number(policy.failed, true),
        ];
        table.row(cells.into_iter().chain(message(&policy.message, wide)));
    }
    table
}

fn exports(exports: &[Export], ago: impl Fn(Option<Timestamp>) -> Cell, wide: bool) -> Table {
    let mut table = table(&["EXPORT", "VALID", "READY", "CONFLICT", "AGE"], wide);
    for export in exports {
        let cells = [
            Cell::plain(format!("{}/{}", export.namespace, export.name)),
            said(&export.valid, "False"),
            said(&export.ready, "False"),
            said(&export.conflict, "True"),
            ago(export.since),
        ];
        table.row(cells.into_iter().chain(message(&export.message, wide)));
    }
    table
}

fn imports(imports: &[Import], ago: impl Fn(Option<Timestamp>) -> Cell, wide: bool) -> Table {
    let mut table = table(&["IMPORT", "READY", "PORTS", "FROM", "AGE"], wide);
    for import in imports {
        let cells = [
            Cell::plain(format!("{}/{}", import.namespace, import.name)),
            said(&import.ready, "False"),
            or_none(&import.ports),
            or_none(&import.clusters),
            ago(import.since),
        ];
        table.row(cells.into_iter().chain(message(&import.message, wide)));
    }
    table
}

/// Some names, or that there are none.
fn or_none(names: &[String]) -> Cell {
    Cell::plain(if names.is_empty() { "-".to_owned() } else { names.join(",") })
}

/// What members share without the hub's objects.
fn shared(services: &[MemberService], ago: impl Fn(Option<Timestamp>) -> Cell, wide: bool) -> Table {
    let titles = ["IN MEMBERS", "EXPORTED BY", "IMPORTED BY", "VALID", "READY", "CONFLICT", "AGE"];
    let mut table = table(&titles, wide);
    for service in services {
        let cells = [
            Cell::plain(format!("{}/{}", service.namespace, service.name)),
            or_none(&service.exported_by),
            or_none(&service.imported_by),
            said(&service.valid, "False"),
            said(&service.ready, "False"),
            said(&service.conflict, "True"),
            ago(service.since),
        ];
        table.row(cells.into_iter().chain(message(&service.message, wide)));
    }
    table
}

fn problems(found: &Overview, place: &str, paint: Paint, wide: bool, width: Option<usize>) -> String {
    let number = found.problems.len();
    if number == 0 {
        return paint.text(Tone::Good, &format!("all is well{place}")) + "\n";
    }
    let title = format!("not well: {number} (`tombolo explain KIND/NAME` says why)");
    let mut text = paint.text(Tone::Bad, &title) + "\n";
    let shown = if wide { number } else { PROBLEMS };
    for problem in found.problems.iter().take(shown) {
        let problem = shortened(problem, width.map_or(usize::MAX, |width| width - 2));
        text += &format!("  {problem}\n");
    }
    if number > shown {
        text += &format!("  and {} more, see -o wide\n", number - shown);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_cut_to_the_terminal_that_it_is_shown_on_and_whole_where_nobody_looks() {
        let name = format!("long-{}", "x".repeat(150));
        let policy = Policy { namespace: Some("shop".to_owned()), name: name.clone(), ..Policy::default() };
        let problem = format!("pp/{name} -n shop: no");
        let found = Overview { policies: vec![policy], problems: vec![problem], ..Overview::default() };
        let shown = |columns| {
            let paint = Paint { colours: false, columns };
            shown(&found, None, Timestamp::UNIX_EPOCH, paint, false)
        };
        let widest = |text: &str| text.lines().map(|line| line.chars().count()).max();
        assert_eq!(widest(&shown(Some(80))), Some(80));
        assert_eq!(widest(&shown(Some(120))), Some(120));
        let whole = shown(None);
        assert!(whole.contains(&format!("shop/{name}")) && whole.contains(&format!("pp/{name} -n shop: no")));
    }

    #[test]
    fn that_all_is_well_is_said_of_the_namespace_that_was_looked_at() {
        let paint = Paint { colours: false, columns: None };
        let last = |namespace| {
            let text = shown(&Overview::default(), namespace, Timestamp::UNIX_EPOCH, paint, false);
            text.lines().last().unwrap_or_default().to_owned()
        };
        assert_eq!(last(Some("shop")), "all is well in namespace shop, -A shows all");
        assert_eq!(last(None), "all is well");
    }
}
