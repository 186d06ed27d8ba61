//! How values look on the wire where serde's own way differs from Kubernetes'.

use serde::{Deserialize, Deserializer};

/// Whether a value need not be written, being what its absence means.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Go writes no difference between an empty value and none, so neither may we: `""` and `0` are `None`.
pub(super) fn unset_if_default<'de, D, T>(value: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default + PartialEq,
{
    Ok(Option::<T>::deserialize(value)?.filter(|value| *value != T::default()))
}
