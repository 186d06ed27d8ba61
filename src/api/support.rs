//! What Tombolo does with each field of a policy and of a Cluster: nothing is silently ignored.
//!
//! [`sections`] is the table: one row a field, for `docs/policy-fields.md` and for the admission webhook, which gets by
//! [`findings`] what an object asks for in vain. A field is refused where without it the clusters would end up in
//! another state than was asked for, and warned about where they end up in the same, or a little later.

use std::sync::LazyLock;

use serde_json::Value;

use super::crds;

mod table;
#[cfg(test)]
mod tests;

/// What Tombolo does with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It does what the field says.
    Acted,
    /// It admits the field with this warning, and does nothing about it.
    Warned(&'static str),
    /// It refuses the field, for this reason.
    Refused(&'static str),
}

/// Which values of a field a row speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Any that is not empty.
    Set,
    /// This one.
    Is(&'static str),
    /// Any but this one.
    IsNot(&'static str),
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The field's path, such as `spec.placement.clusterAffinities[].affinityName`.
    pub path: String,
    /// The values that the row speaks of.
    pub when: When,
    /// What Tombolo does.
    pub support: Support,
    /// Whether the row speaks for everything inside the field too.
    pub whole: bool,
    /// How the field is meant, where that needs saying.
    pub note: &'static str,
}

/// The rows of kinds that have one spec.
#[derive(Debug)]
pub struct Section {
    /// The kinds.
    pub kinds: &'static [&'static str],
    /// The rows, in the order of reading.
    pub rows: Vec<Row>,
}

/// A field that an object sets and that Tombolo does not act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where, such as `spec.placement.clusterAffinities[1].overflowAffinities`.
    pub path: String,
    /// Warned or refused.
    pub support: Support,
}

static SECTIONS: LazyLock<[Section; 3]> = LazyLock::new(|| {
    [
        Section { kinds: &["PropagationPolicy", "ClusterPropagationPolicy"], rows: table::propagation() },
        Section { kinds: &["OverridePolicy", "ClusterOverridePolicy"], rows: table::overrides() },
        Section { kinds: &["Cluster"], rows: table::cluster() },
    ]
});

/// The table.
pub fn sections() -> &'static [Section] {
    &*SECTIONS
}

/// What an object sets and Tombolo does not act on, the outermost field of each. None for other kinds.
pub fn findings(kind: &str, object: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    let section = sections().iter().find(|section| section.kinds.contains(&kind));
    for row in section.iter().flat_map(|section| &section.rows).filter(|row| row.support != Support::Acted) {
        look(object, &row.path, String::new(), &mut |path, value| {
            if row.when.holds(value) {
                findings.push(Finding { path, support: row.support });
            }
        });
    }
    findings
}

/// The table as Markdown, one row for each field of the schemas.
pub fn markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    for section in sections() {
        page.push_str(&format!(
            "\n## {}\n\n| field | Tombolo | note |\n|---|---|---|\n",
            section.kinds.join(", ")
        ));
        let fields = section.kinds.first().map(|kind| crds::spec_fields(kind)).unwrap_or_default();
        for row in &section.rows {
            page.push_str(&row.markdown());
            if row.whole {
                let inside = fields.iter().filter(|field| row.is_around(field));
                page.extend(inside.map(|field| row.markdown_of(field)));
            }
        }
    }
    page
}

const INTRODUCTION: &str = "\
# Fields of policies and Clusters
<!-- Made from src/api/support by `cargo run -- crds --write`. -->

Policies and Clusters are Karmada's, with every field of its release 1.18, so that its manifests apply unchanged.
Tombolo ignores none of them silently:

- **acted on**: it does what the field says;
- *warned*: the object is admitted with a warning, and the field changes nothing;
- **refused**: the object is not admitted, since the clusters would end up in another state than it asks for.

A field that is refused or warned about may be there with an empty value. Beyond Karmada, names of objects,
namespaces and clusters may be globs, and each policy has a `status`: how many objects it holds for, what each
cluster made of them, and conditions.
";

// === impl Section ===

impl Section {
    /// The rows that speak of a field: its own, or that of a field around it that speaks for the whole.
    pub fn rows_of(&self, path: &str) -> Vec<&Row> {
        self.rows.iter().filter(|row| row.path == path || (row.whole && row.is_around(path))).collect()
    }
}

// === impl Row ===

impl Row {
    fn is_around(&self, path: &str) -> bool {
        path.strip_prefix(&self.path).is_some_and(|below| below.starts_with(['.', '[']))
    }

    fn markdown(&self) -> String {
        let path = &self.path;
        let field = match self.when {
            When::Set => format!("`{path}`"),
            When::Is(value) => format!("`{path}: {value}`"),
            When::IsNot(value) => format!("`{path}` other than `{value}`"),
        };
        let note = match self.support {
            Support::Acted => self.note,
            Support::Warned(reason) | Support::Refused(reason) => reason,
        };
        format!("| {field} | {} | {note} |\n", self.support.markdown())
    }

    /// The row of a field inside, which says no more than that.
    fn markdown_of(&self, inside: &str) -> String {
        let field = self.path.rsplit('.').next().unwrap_or_default();
        format!("| `{inside}` | {} | as `{field}` |\n", self.support.markdown())
    }
}

// === impl Support ===

impl Support {
    fn markdown(self) -> &'static str {
        match self {
            Self::Acted => "acted on",
            Self::Warned(_) => "*warned*",
            Self::Refused(_) => "**refused**",
        }
    }
}

// === impl When ===

impl When {
    /// Whether a value is one that the row speaks of. Empty is as good as absent.
    fn holds(self, value: &Value) -> bool {
        let empty = match value {
            Value::Null => true,
            Value::Bool(value) => !value,
            Value::Number(_) => false,
            Value::String(value) => value.is_empty(),
            Value::Array(values) => values.is_empty(),
            Value::Object(fields) => fields.is_empty(),
        };
        match self {
            Self::Set => !empty,
            Self::Is(wanted) => value == wanted,
            Self::IsNot(unwanted) => !empty && value != unwanted,
        }
    }
}

/// Visits each value at a path, with the path it is at: `[]` stands for every item of a list.
fn look(value: &Value, path: &str, at: String, visit: &mut impl FnMut(String, &Value)) {
    if let Some(rest) = path.strip_prefix("[]") {
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            look(item, rest, format!("{at}[{index}]"), visit);
        }
    } else if path.is_empty() {
        visit(at, value);
    } else {
        let path = path.strip_prefix('.').unwrap_or(path);
        let (field, rest) = path.split_at(path.find(['.', '[']).unwrap_or(path.len()));
        if let Some(value) = value.get(field) {
            let dot = if at.is_empty() { "" } else { "." };
            look(value, rest, format!("{at}{dot}{field}"), visit);
        }
    }
}
