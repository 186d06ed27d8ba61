//! The alert rules of the hub's chart, by Prometheus' own tool.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use tombolo_e2e::{packages::promtool, process::run};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/tombolo-hub/alerts");

pub(crate) fn the_alerts_are_rules_that_go_off_when_they_should() -> Result<()> {
    let promtool = promtool()?;
    let say = |line: &[&str]| run(Command::new(&promtool).args(line).current_dir(FOLDER));
    let checked = say(&["check", "rules", "tombolo.yaml"]).context("the rules make no sense")?;
    ensure!(checked.contains("SUCCESS: 15 rules found"), "{checked}");
    let tested =
        say(&["test", "rules", "tombolo_test.yaml"]).context("an alert does not go off, or without need")?;
    ensure!(tested.contains("SUCCESS"), "{tested}");
    Ok(())
}
