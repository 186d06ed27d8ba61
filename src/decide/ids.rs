//! Names of what crosses clusters. Each kind is a type of its own, checked where it enters and cheap to clone.
//!
//! All are RFC-1123 labels (lower-case letters, digits and `-`, no `-` at either end); they differ in length and in
//! whether they may be empty.

use std::{borrow::Borrow, error::Error, fmt, str::FromStr, sync::Arc};

/// The longest RFC-1123 label.
const LABEL: usize = 63;
/// The longest cluster name. Karmada's limit: it prefixes names with up to 15 characters of its own.
const CLUSTER: usize = 48;
/// As much of a bad name as an error repeats; it may come from a hostile member.
const SHOWN: usize = 80;

/// Why a text is no name, in words for the one who wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidName {
    kind: &'static str,
    value: String,
    fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Fault {
    Empty,
    Long { length: usize, max: usize },
    Character { character: char, position: usize },
    Edge,
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $max:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidName;

            fn from_str(text: &str) -> Result<Self, InvalidName> {
                label($kind, text, $max).map(|()| Self(text.into()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        // Lets a map be asked by text. Equality, order and hash are those of the text.
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name!(
    /// A member cluster's name, which is its cluster id too (KEP-1645 A3, A4): an RFC-1123 label of at most 48
    /// characters.
    ClusterName,
    "cluster name",
    CLUSTER
);
name!(
    /// A namespace's name. Namespaces of one name are the same namespace in every cluster (KEP-1645 A2).
    Namespace,
    "namespace",
    LABEL
);
name!(
    /// A Service's name: any RFC-1123 label, also one that begins with a digit (Kubernetes 1.36 relaxed it).
    ServiceName,
    "Service name",
    LABEL
);

/// A service of the clusterset: the Services of this namespace and name in all clusters (KEP-1645 A2).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceKey {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its name.
    pub name: ServiceName,
}

/// A Service port's name; empty = unnamed, which Kubernetes allows to a Service's only port.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortName(Option<Arc<str>>);

// === impl ServiceKey ===

impl ServiceKey {
    /// The key of a namespace and a name as Kubernetes has them.
    pub fn parse(namespace: &str, name: &str) -> Result<Self, InvalidName> {
        Ok(Self { namespace: namespace.parse()?, name: name.parse()? })
    }
}

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

// === impl PortName ===

impl PortName {
    /// The name of a port without a name.
    pub const UNNAMED: Self = Self(None);

    /// The name as Kubernetes writes it: empty for none.
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    /// The name of a label that is known to be one.
    pub(in crate::decide) fn trusted(label: &str) -> Self {
        debug_assert!(label.parse::<Self>().is_ok(), "{label} is no label");
        Self(Some(label.into()))
    }

    /// Whether there is a name.
    pub fn is_named(&self) -> bool {
        self.0.is_some()
    }
}

impl FromStr for PortName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        if text.is_empty() {
            return Ok(Self::UNNAMED);
        }
        label("port name", text, LABEL).map(|()| Self(Some(text.into())))
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

// === impl InvalidName ===

impl Error for InvalidName {}

impl fmt::Display for InvalidName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.value.chars().take(SHOWN).collect();
        let more = if shown.len() < self.value.len() { "…" } else { "" };
        write!(f, "{:?} is not a {}: ", shown + more, self.kind)?;
        match self.fault {
            Fault::Empty => f.write_str("it is empty"),
            Fault::Long { length, max } => write!(f, "it has {length} characters, {max} are allowed"),
            Fault::Character { character, position } => write!(
                f,
                "character {position} is {character:?}, only lower-case letters, digits and '-' are allowed"
            ),
            Fault::Edge => f.write_str("it must begin and end with a lower-case letter or a digit"),
        }
    }
}

fn label(kind: &'static str, text: &str, max: usize) -> Result<(), InvalidName> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let length = text.chars().count();
    let fault = if text.is_empty() {
        Fault::Empty
    } else if length > max {
        Fault::Long { length, max }
    } else if let Some((index, character)) = text.chars().enumerate().find(|(_, c)| !allowed(*c)) {
        Fault::Character { character, position: index + 1 }
    } else if text.starts_with('-') || text.ends_with('-') {
        Fault::Edge
    } else {
        return Ok(());
    };
    Err(InvalidName { kind, value: text.chars().take(SHOWN + 1).collect(), fault })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault<T: FromStr<Err = InvalidName> + fmt::Debug>(text: &str) -> String {
        text.parse::<T>().unwrap_err().to_string()
    }

    #[test]
    fn names_that_kubernetes_takes_are_taken() {
        for text in ["a", "0", "member1", "10-0-0-1", "a--b", &"x".repeat(48)] {
            assert_eq!(text.parse::<ClusterName>().unwrap().as_str(), text);
        }
        for text in ["1serve", &"x".repeat(63)] {
            assert_eq!(text.parse::<ServiceName>().unwrap().to_string(), text);
            assert_eq!(text.parse::<Namespace>().unwrap().to_string(), text);
            assert_eq!(text.parse::<PortName>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a3_a_name_is_a_dns_label_and_an_error_says_what_is_wrong_with_it() {
        let table = [
            ("", r#""" is not a cluster name: it is empty"#),
            (
                "Member1",
                r#""Member1" is not a cluster name: character 1 is 'M', only lower-case letters, digits and '-' are allowed"#,
            ),
            (
                "eu.west",
                r#""eu.west" is not a cluster name: character 3 is '.', only lower-case letters, digits and '-' are allowed"#,
            ),
            (
                "-a",
                r#""-a" is not a cluster name: it must begin and end with a lower-case letter or a digit"#,
            ),
            (
                "a-",
                r#""a-" is not a cluster name: it must begin and end with a lower-case letter or a digit"#,
            ),
        ];
        for (text, message) in table {
            assert_eq!(fault::<ClusterName>(text), message);
        }
        assert!(fault::<ServiceName>("é").contains("character 1 is 'é'"));
    }

    #[test]
    fn a_cluster_name_has_at_most_48_characters_and_the_others_63() {
        assert!(fault::<ClusterName>(&"x".repeat(49)).ends_with("it has 49 characters, 48 are allowed"));
        assert!(fault::<ServiceName>(&"x".repeat(64)).ends_with("it has 64 characters, 63 are allowed"));
        assert!(fault::<Namespace>(&"x".repeat(64)).ends_with("it has 64 characters, 63 are allowed"));
        assert!(fault::<PortName>(&"x".repeat(64)).ends_with("it has 64 characters, 63 are allowed"));
    }

    #[test]
    fn a_huge_name_makes_a_small_error() {
        let error = "é".repeat(5_000_000).parse::<ClusterName>().unwrap_err();
        assert!(error.value.len() < 200);
        let message = error.to_string();
        assert!(message.chars().count() < 200, "{message}");
        assert!(message.contains("é…\" is not"), "{message}");
    }

    #[test]
    fn no_port_name_is_one_too() {
        assert_eq!("".parse(), Ok(PortName::UNNAMED));
        assert_eq!(PortName::UNNAMED.to_string(), "");
        assert!(!PortName::UNNAMED.is_named());
        assert!("http".parse::<PortName>().unwrap().is_named());
    }

    #[test]
    fn a_service_key_reads_as_kubectl_writes_it() {
        assert_eq!(ServiceKey::parse("shop", "serve").unwrap().to_string(), "shop/serve");
        assert!(ServiceKey::parse("shop", "").unwrap_err().to_string().contains("Service name"));
        assert!(ServiceKey::parse("", "serve").unwrap_err().to_string().contains("namespace"));
    }

    #[test]
    fn keys_are_ordered_by_namespace_then_name() {
        let key = |namespace, name| ServiceKey::parse(namespace, name).unwrap();
        assert!(key("a", "z") < key("b", "a"));
        assert!(key("a", "a") < key("a", "b"));
    }
}
