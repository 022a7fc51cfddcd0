//! Connections to the database.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use threadfold_store::StoreError;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Config, NoTls};

use crate::failure::Failure;
use crate::tls;
use crate::url::{Encryption, PostgresUrl};

/// How many connections a process holds at most, besides the one that listens.
const MOST_CONNECTIONS: usize = 8;
/// How long a call waits for a connection.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the database may be silent before a connection to it counts as dead.
const SILENCE: Duration = Duration::from_secs(30);

/// Every connection begins with it. A transaction that waits for a client that is gone would hold
/// its locks against everybody else.
const SETTINGS: &str = "-c synchronous_commit=on -c idle_in_transaction_session_timeout=30s \
                        -c statement_timeout=60s -c client_min_messages=warning";

/// Makes connections to one database.
#[derive(Clone)]
pub(crate) struct Connector {
    config: Config,
    tls: tokio_postgres_rustls::MakeRustlsConnect,
    is_plain: bool,
}

impl Connector {
    pub(crate) fn new(url: &PostgresUrl) -> Result<Self, StoreError> {
        let tls = tls::connector(url)
            .map_err(|source| StoreError::Unreachable { place: url.to_string(), source })?;
        let mut config = url.config.clone();
        config.ssl_mode(match url.encryption {
            Encryption::Never => SslMode::Disable,
            Encryption::IfPossible => SslMode::Prefer,
            Encryption::Unverified | Encryption::Verified => SslMode::Require,
        });
        let settings = match config.get_options() {
            // What the URL sets comes later, and so prevails.
            Some(own) => format!("{SETTINGS} {own}"),
            None => SETTINGS.to_owned(),
        };
        config.options(settings);
        config.connect_timeout(PATIENCE).tcp_user_timeout(SILENCE).keepalives_idle(SILENCE / 2);
        Ok(Self { config, tls, is_plain: url.encryption == Encryption::Never })
    }

    /// Returns the connections that calls share.
    pub(crate) fn pool(&self) -> Result<Pool, deadpool_postgres::BuildError> {
        let how = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = match self.is_plain {
            true => Manager::from_config(self.config.clone(), NoTls, how),
            false => Manager::from_config(self.config.clone(), self.tls.clone(), how),
        };
        Pool::builder(manager)
            .max_size(MOST_CONNECTIONS)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(PATIENCE))
            .create_timeout(Some(PATIENCE))
            .build()
    }

    /// Opens a connection of its own, for notifications.
    pub(crate) async fn listen(&self) -> Result<ListeningConnection, Failure> {
        let (client, connection) = self.config.connect(self.tls.clone()).await?;
        Ok(ListeningConnection { client, connection })
    }
}

type RustlsStream =
    <tokio_postgres_rustls::MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<
        tokio_postgres::Socket,
    >>::Stream;

/// A connection whose messages the caller reads.
pub(crate) struct ListeningConnection {
    pub(crate) client: tokio_postgres::Client,
    pub(crate) connection: tokio_postgres::Connection<tokio_postgres::Socket, RustlsStream>,
}
