//! Names as the pods of a cluster see them: asked of the cluster's DNS server, from its node.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::{bed::Bed, process::run, wait::until};

const PATIENCE: Duration = Duration::from_secs(90);

/// What a DNS server said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// How it answered, such as `NOERROR` or `NXDOMAIN`.
    pub status: String,
    /// The records, each as `<type> <value>`, in order.
    pub records: Vec<String>,
}

/// Asks the DNS server of a cluster for the records of a name and a type.
pub fn ask(bed: &Bed, member: usize, kind: &str, name: &str) -> Result<Answer> {
    section(bed, member, "+answer", kind, name)
}

/// The same, but gives back what the server added unasked.
pub fn additional(bed: &Bed, member: usize, kind: &str, name: &str) -> Result<Answer> {
    section(bed, member, "+additional", kind, name)
}

fn section(bed: &Bed, member: usize, section: &str, kind: &str, name: &str) -> Result<Answer> {
    let plane = bed.member(member);
    let mut dig = bed.node(&plane.name)?.command("dig");
    dig.args(["+noall", "+comments", section, "+time=3", "+tries=3", "-t", kind, name]);
    dig.arg(format!("@{}", plane.addresses.dns()));
    parse(&run(&mut dig)?)
}

/// The addresses that a name has in a cluster, in order; an error unless there is an answer, maybe an empty one.
pub fn addresses(bed: &Bed, member: usize, kind: &str, name: &str) -> Result<Vec<String>> {
    let answer = ask(bed, member, kind, name)?;
    ensure!(answer.status == "NOERROR", "{name}: {}", answer.status);
    let prefix = format!("{kind} ");
    Ok(answer.records.iter().filter_map(|record| Some(record.strip_prefix(&prefix)?.to_owned())).collect())
}

/// Waits until the DNS servers of all members know the clusterset's zone: they begin to when they find its CRDs.
pub async fn until_answering(bed: &Bed) -> Result<()> {
    for member in 1..=bed.members.len() {
        until(&format!("DNS of member{member} knows the clusterset"), PATIENCE, async || {
            let answer = ask(bed, member, "TXT", "dns-version.clusterset.local.")?;
            ensure!(!answer.records.is_empty(), "it answers {answer:?}");
            // Until it has read the imports it fails every other name.
            let none = ask(bed, member, "A", "none.default.svc.clusterset.local.")?;
            ensure!(none.status == "NXDOMAIN", "it answers {none:?}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

fn parse(said: &str) -> Result<Answer> {
    let status = said.split("status: ").nth(1).and_then(|rest| rest.split(',').next());
    let status = status.with_context(|| format!("there is no status in {said:?}"))?.to_owned();
    let records = said.lines().filter(|line| !line.is_empty() && !line.starts_with(';'));
    // A line is: name, lifetime, class, type, value.
    let mut records: Vec<String> =
        records.map(|line| line.split_whitespace().skip(3).collect::<Vec<_>>().join(" ")).collect();
    records.sort();
    Ok(Answer { status, records })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_its_status_and_its_records() {
        let said = ";; Got answer:\n;; ->>HEADER<<- opcode: QUERY, status: NOERROR, id: 7\n;; flags: qr aa; QUERY: 1\n\n\
                    ;; ANSWER SECTION:\na.b.svc.clusterset.local. 5 IN SRV 0 100 80 a.b.svc.clusterset.local.\n\
                    a.b.svc.clusterset.local. 5 IN A 10.0.0.1\n";
        let answer = parse(said).unwrap();
        assert_eq!(answer.status, "NOERROR");
        assert_eq!(answer.records, ["A 10.0.0.1", "SRV 0 100 80 a.b.svc.clusterset.local."]);
        assert!(parse("").is_err());
    }

    #[test]
    fn the_zone_that_the_page_shows_is_the_one_that_is_asked_here_but_for_what_the_page_says() {
        let block = |text: &'static str| -> Vec<&str> {
            let lines = text.lines().map(str::trim).skip_while(|line| *line != "clusterset.local:53 {");
            lines.take_while(|line| !["```", ".:53 {"].contains(line)).collect()
        };
        let page = include_str!("../../docs/dns.md");
        let besides = ["errors", "loadbalance", "startup_timeout 1s"];
        assert!(besides.iter().all(|line| page.contains(&format!("`{line}`"))));
        let here = block(include_str!("node/coredns.yaml")).into_iter();
        assert_eq!(here.filter(|line| !besides.contains(line)).collect::<Vec<_>>(), block(page));
        assert_eq!(block(page).len(), 5);
    }
}
