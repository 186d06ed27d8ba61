//! Taints of clusters and what tolerates them, as Kubernetes has it for nodes.

use k8s_openapi::api::core::v1::{Taint, Toleration};

use crate::decide::fault::{Fault, Path, Shown};

const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";
const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";

/// The first taint that keeps an object away from a cluster, or drives it out where the cluster holds it.
///
/// `tolerationSeconds` is not counted: what is tolerated for a while is tolerated for as long as the taint is there.
pub(super) fn untolerated<'a>(
    taints: &'a [Taint],
    tolerations: &[Toleration],
    holds: bool,
) -> Option<&'a Taint> {
    taints.iter().find(|taint| {
        let counts = taint.effect == NO_EXECUTE || (taint.effect == NO_SCHEDULE && !holds);
        counts && !tolerations.iter().any(|toleration| tolerates(toleration, taint))
    })
}

/// A taint as people write it.
pub(super) fn shown(taint: &Taint) -> String {
    match taint.value.as_deref() {
        None | Some("") => format!("{}:{}", taint.key, taint.effect),
        Some(value) => format!("{}={value}:{}", taint.key, taint.effect),
    }
}

/// Reports what makes no sense as a toleration. Gt and Lt are refused as in Karmada.
pub(super) fn check(toleration: &Toleration, path: &Path<'_>, faults: &mut Vec<Fault>) {
    let operator = toleration.operator.as_deref().unwrap_or_default();
    let (keyless, valued) = (text(&toleration.key).is_empty(), !text(&toleration.value).is_empty());
    match operator {
        "" | "Equal" | "Exists" => {}
        other => faults.push(
            path.field("operator")
                .fault(format!("{} is not an operator here; use Equal or Exists", Shown(other))),
        ),
    }
    if keyless && matches!(operator, "" | "Equal") {
        faults.push(
            path.field("key")
                .fault("it is empty, which only operator Exists allows; name the taint, or use Exists"),
        );
    }
    if valued && operator == "Exists" {
        faults.push(path.field("value").fault("operator Exists takes no value; leave it out, or use Equal"));
    }
    let effect = text(&toleration.effect);
    if !["", NO_SCHEDULE, NO_EXECUTE, PREFER_NO_SCHEDULE].contains(&effect) {
        faults.push(path.field("effect").fault(format!(
            "{} is not an effect; use NoSchedule, NoExecute or PreferNoSchedule, or none for all",
            Shown(effect)
        )));
    }
    if toleration.toleration_seconds.is_some() && effect != NO_EXECUTE {
        faults
            .push(path.field("tolerationSeconds").fault("it goes with effect NoExecute only; leave it out"));
    }
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let (effect, key) = (text(&toleration.effect), text(&toleration.key));
    (effect.is_empty() || effect == taint.effect)
        && (key.is_empty() || key == taint.key)
        && match toleration.operator.as_deref().unwrap_or_default() {
            "" | "Equal" => text(&toleration.value) == text(&taint.value),
            "Exists" => true,
            _ => false,
        }
}

#[expect(clippy::ref_option, reason = "the wire types have it so")]
fn text(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or_default()
}
