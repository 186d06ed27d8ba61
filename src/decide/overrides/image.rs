//! The name of an image and its parts.

use std::fmt;

use crate::{
    api::overrides::{ImageComponent, ImageOverrider, Operator},
    decide::fault::Shown,
};

/// `registry/repository:tag@digest`, of which only the repository must be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Image {
    registry: String,
    repository: String,
    tag: String,
    digest: String,
}

// === impl Image ===

impl Image {
    /// An image's name with one part changed.
    ///
    /// `add` appends to the part, as in Karmada. A new tag or digest replaces both, since a digest would go on to pin the
    /// old image; a new registry or repository keeps both (Karmada drops the digest).
    pub(super) fn overridden(text: &str, entry: &ImageOverrider) -> Result<String, String> {
        Self::changed(text, entry).map_err(|why| format!("image {}: {why}", Shown(text)))
    }

    fn changed(text: &str, entry: &ImageOverrider) -> Result<String, String> {
        let mut image = Self::parse(text)?;
        let value = entry.value.as_deref();
        match entry.component {
            ImageComponent::Registry => change(&mut image.registry, &entry.operator, value)?,
            ImageComponent::Repository => change(&mut image.repository, &entry.operator, value)?,
            ImageComponent::Tag => image.change_version(&entry.operator, value)?,
            ImageComponent::Other(ref other) => {
                return Err(format!("{} is not a part of an image", Shown(other)));
            }
        }
        let text = image.to_string();
        Self::parse(&text).map(|_| text)
    }

    /// Splits a name into its parts. The first part is a registry if it has a dot or a port, or is `localhost`.
    fn parse(text: &str) -> Result<Self, String> {
        let (name, digest) = text.split_once('@').unwrap_or((text, ""));
        let slash = name.rfind('/').map_or(0, |slash| slash + 1);
        let (name, tag) = match name[slash..].find(':') {
            Some(colon) => (&name[..slash + colon], &name[slash + colon + 1..]),
            None => (name, ""),
        };
        let is_registry = |part: &str| part.contains(['.', ':']) || part == "localhost";
        let (registry, repository) = match name.split_once('/') {
            Some((first, rest)) if is_registry(first) => (first, rest),
            _ => ("", name),
        };
        let complete = !text.ends_with(['@', ':']);
        let valid = complete
            && repository.split('/').all(is_path_part)
            && (registry.is_empty() || is_host(registry))
            && (tag.is_empty() || is_tag(tag))
            && (digest.is_empty() || is_digest(digest));
        if !valid {
            return Err(format!("{} is not the name of an image", Shown(text)));
        }
        let own = str::to_owned;
        Ok(Self { registry: own(registry), repository: own(repository), tag: own(tag), digest: own(digest) })
    }

    fn change_version(&mut self, operator: &Operator, value: Option<&str>) -> Result<(), String> {
        let mut version = if self.tag.is_empty() { self.digest.clone() } else { self.tag.clone() };
        change(&mut version, operator, value)?;
        (self.tag, self.digest) = match version {
            version if is_digest(&version) => (String::new(), version),
            version if version.is_empty() || is_tag(&version) => (version, String::new()),
            version => return Err(format!("{} is neither a tag nor a digest", Shown(&version))),
        };
        Ok(())
    }
}

fn change(part: &mut String, operator: &Operator, value: Option<&str>) -> Result<(), String> {
    let value = value.ok_or("it has no value");
    match operator {
        Operator::Add => part.push_str(value?),
        Operator::Replace => value?.clone_into(part),
        Operator::Remove => part.clear(),
        Operator::Other(other) => return Err(format!("{} is not an operator", Shown(other))),
    }
    Ok(())
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.registry.is_empty() {
            write!(f, "{}/", self.registry)?;
        }
        f.write_str(&self.repository)?;
        if !self.tag.is_empty() {
            write!(f, ":{}", self.tag)?;
        }
        if !self.digest.is_empty() {
            write!(f, "@{}", self.digest)?;
        }
        Ok(())
    }
}

fn is_path_part(part: &str) -> bool {
    let alphanumeric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = part.as_bytes();
    bytes.iter().all(|b| alphanumeric(b) || b"._-".contains(b))
        && bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
}

fn is_host(host: &str) -> bool {
    host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-:[]".contains(&b))
}

/// Whether a text can be the tag of an image.
pub(super) fn is_tag(tag: &str) -> bool {
    tag.len() <= 128
        && tag.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
        && tag.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Whether a text can be the digest of an image: `sha256:` and hexadecimal digits.
pub(super) fn is_digest(digest: &str) -> bool {
    digest.split_once(':').is_some_and(|(algorithm, hex)| {
        let mut parts = algorithm.split(['-', '_', '+', '.']);
        parts.all(|part| {
            part.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
                && part.bytes().all(|b| b.is_ascii_alphanumeric())
        }) && hex.len() >= 32
            && hex.bytes().all(|b| b.is_ascii_hexdigit())
    })
}
