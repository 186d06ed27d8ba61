//! Listening on all addresses, where there is IPv6 and where there is none.

use std::{
    io::{self, ErrorKind},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

/// Binds an address by a function. A machine without IPv6 cannot bind `[::]`, which stands for all addresses: there it is `0.0.0.0`.
pub async fn bind<T, F: Future<Output = io::Result<T>>>(
    address: SocketAddr,
    bind: impl Fn(SocketAddr) -> F,
) -> io::Result<T> {
    let error = match bind(address).await {
        Err(e) if address.ip() == Ipv6Addr::UNSPECIFIED => e,
        bound => return bound,
    };
    // These are about the port, which another address does not change.
    if matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::PermissionDenied) {
        return Err(error);
    }
    let all = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port());
    tracing::info!("cannot listen on {address}, listening on {all}: {error}");
    bind(all).await
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    /// Binds on a machine where IPv6 fails, and says where it ended up.
    async fn without_ipv6(address: &str, fault: ErrorKind) -> Result<String, ErrorKind> {
        let bound = bind(address.parse().unwrap(), |at| {
            ready(if at.is_ipv6() { Err(fault.into()) } else { Ok(at.to_string()) })
        });
        bound.await.map_err(|e| e.kind())
    }

    #[tokio::test]
    async fn where_there_is_no_ipv6_all_addresses_are_those_of_ipv4() {
        for fault in [ErrorKind::AddrNotAvailable, ErrorKind::Unsupported] {
            assert_eq!(without_ipv6("[::]:9443", fault).await, Ok("0.0.0.0:9443".to_owned()));
            // Who asks for one address gets that or none.
            assert_eq!(without_ipv6("[::1]:9443", fault).await, Err(fault));
            assert_eq!(without_ipv6("10.0.0.1:9443", fault).await, Ok("10.0.0.1:9443".to_owned()));
        }
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_told_as_it_is() {
        let fault = ErrorKind::AddrInUse;
        assert_eq!(without_ipv6("[::]:9443", fault).await, Err(fault));
    }
}
