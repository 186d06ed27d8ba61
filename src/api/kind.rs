//! The root of a kind: `metadata`, `spec` and `status`, and what [`kube`] has to know of it.
//!
//! kube's own derive ties a spec to one kind; here two kinds share a spec, and the kinds of the Multi-Cluster Services
//! API are served in two versions.

/// Declares a kind of one version.
macro_rules! kind {
    (
        $(#[$doc:meta])*
        $Kind:ident: $Scope:ident, $group:expr, $version:literal, $plural:literal, $Spec:ty, $Status:ty
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
        pub struct $Kind {
            /// Name, namespace, labels, annotations and so on.
            #[serde(default)]
            pub metadata: kube::core::ObjectMeta,
            /// What is asked for.
            pub spec: $Spec,
            /// What was found.
            pub status: Option<$Status>,
        }

        impl $Kind {
            /// An object of that name, without status.
            pub fn new(name: &str, spec: $Spec) -> Self {
                let metadata = kube::core::ObjectMeta { name: Some(name.to_owned()), ..Default::default() };
                Self { metadata, spec, status: None }
            }
        }

        impl kube::Resource for $Kind {
            type DynamicType = ();
            type Scope = kube::core::$Scope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                stringify!($Kind).into()
            }
            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }
            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }
            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }
            fn meta(&self) -> &kube::core::ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut kube::core::ObjectMeta {
                &mut self.metadata
            }
        }

        impl serde::Serialize for $Kind {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let api_version = <Self as kube::Resource>::api_version(&());
                crate::api::kind::root(serializer, &api_version, stringify!($Kind), &self.metadata, Some(&self.spec), self.status.as_ref())
            }
        }
    };
}

/// Writes an object with its type, which the API server insists on.
pub(super) fn root<S: serde::Serializer>(
    serializer: S,
    api_version: &str,
    kind: &str,
    metadata: &kube::core::ObjectMeta,
    spec: Option<&impl serde::Serialize>,
    status: Option<&impl serde::Serialize>,
) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeStruct;

    let mut object = serializer
        .serialize_struct("object", 3 + usize::from(spec.is_some()) + usize::from(status.is_some()))?;
    object.serialize_field("apiVersion", api_version)?;
    object.serialize_field("kind", kind)?;
    object.serialize_field("metadata", metadata)?;
    if let Some(spec) = spec {
        object.serialize_field("spec", spec)?;
    }
    if let Some(status) = status {
        object.serialize_field("status", status)?;
    }
    object.end()
}

pub(super) use kind;
