//! Runs the server: its store, its token, its sessions, and what it prints.

mod browser;
mod example;
mod log;
mod noted;
mod token;

use std::env;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::anyhow;
use threadfold_engine::{
    Discovery, Host, Machine, Options, RemovedSessions, Writers, holder, import_index_path,
};
use threadfold_server::{Access, MachineOptions, MachineSessions, Server, ServerOptions, Token};
use tokio::net::TcpListener;

use crate::error::{CommandError, print_note};
use crate::store::{OpenStore, StoreArgs};

use noted::NotedServer;
pub(crate) use token::read_token;

/// How the server is started.
pub(crate) struct ServeOptions {
    pub(crate) bind: SocketAddr,
    pub(crate) allows_remote: bool,
    pub(crate) public_urls: Vec<String>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) is_read_only: bool,
    pub(crate) agent_home: Option<PathBuf>,
    pub(crate) opens_browser: bool,
    pub(crate) log: String,
    pub(crate) store: StoreArgs,
}

/// Serves until the user stops it.
pub(crate) fn serve(options: ServeOptions) -> Result<(), CommandError> {
    log::start(&options.log)?;
    check_bind(&options)?;
    let token_path = token::path(options.token_file.clone())?;
    let token = token::open(&token_path)?;
    let store = options.store.open_or_make()?;
    raise_file_limit();
    let served = store.wait(run(&store, &options, token, &token_path));
    store.shut_down();
    served
}

/// Refuses an address that other machines can reach, unless the user wants that.
fn check_bind(options: &ServeOptions) -> Result<(), CommandError> {
    match options.bind.ip().is_loopback() {
        true => Ok(()),
        false if options.allows_remote => {
            print_note(format_args!(
                "warning: {} can be reached by other machines; the connection is not encrypted, \
                 and whoever has the token can read and remove all sessions",
                options.bind
            ));
            Ok(())
        }
        false => Err(CommandError::new(
            anyhow!("{} can be reached by other machines", options.bind),
            "use an SSH tunnel to a loopback address, with `--public-url`; or `--allow-remote`, if \
             the network is trusted: the connection is not encrypted",
        )),
    }
}

async fn run(
    store: &OpenStore,
    options: &ServeOptions,
    token: Token,
    token_path: &std::path::Path,
) -> Result<(), CommandError> {
    let listener = TcpListener::bind(options.bind).await.map_err(|error| {
        let what = format!("cannot listen on {}", options.bind);
        let error = anyhow::Error::new(error).context(what);
        CommandError::new(error, "choose another one with `--bind ADDRESS:PORT`")
    })?;
    let address = listener.local_addr()?;
    let mut access = Access::bound(address, token.clone());
    for url in &options.public_urls {
        if !access.allow(url) {
            return Err(CommandError::new(
                anyhow!("`{url}` is not the address of a server"),
                "a public URL looks like `https://name.example`",
            ));
        }
    }
    let (writers, sessions) = sessions(store, options)?;
    let mut serving = ServerOptions::new(access);
    serving.is_read_only = options.is_read_only;
    serving.budget = Some(store.budget());
    sessions.serve(&mut serving);
    let server = Server::with_writers(writers, serving);
    let stop = crate::stop::stop();
    // A token in a file of the user's own choice is given to a client by name.
    let _noted = match options.token_file {
        Some(_) => None,
        None => note(options, address),
    };
    announce(options, address, &token, token_path)?;
    let playing = server.clone();
    let catalog = sessions.catalog().clone();
    // A database is shared, and what one server finds nowhere another may be about to write.
    let is_own = store.location().file().is_some();
    let example = async move {
        if !is_own {
            return std::future::pending().await;
        }
        catalog.complete().await;
        match example::play_if_empty(&playing).await {
            Ok(()) => std::future::pending().await,
            Err(error) => error,
        }
    };
    let serving = server.serve(listener, async {
        if let Err(error) = stop.await {
            print_note(format_args!("stopping, because signals cannot be received: {error}"));
        }
    });
    tokio::select! {
        served = serving => Ok(served?),
        collected = sessions.run() => Ok(collected?),
        failed = example => Err(failed),
    }
}

/// Returns the sessions of the machine, and the writers that all of the server uses.
fn sessions(
    store: &OpenStore,
    options: &ServeOptions,
) -> Result<(Writers, MachineSessions), CommandError> {
    let host = Host::within(store.shared(), Some(store.budget()));
    let budget = store.budget();
    let writers = Writers::new(host, move || Options {
        budget: Some(budget.clone()),
        ..Options::new(holder("threadfold serve"))
    });
    let elsewhere = options.agent_home.clone();
    let home = elsewhere.clone().or_else(env::home_dir).unwrap_or_default();
    let (is_elsewhere, machine_home) = (elsewhere.is_some(), home.clone());
    let discover = move || {
        let variable = |name: &str| if is_elsewhere { None } else { env::var_os(name) };
        Discovery::of_machine(&Machine { home: machine_home.clone(), variable: &variable })
    };
    let file = store.location().file();
    let removed = file.map(RemovedSessions::open).transpose()?;
    let sessions = MachineSessions::new(
        writers.clone(),
        MachineOptions {
            discover: Arc::new(discover),
            home,
            index: file.map(import_index_path),
            removed: Arc::new(removed.unwrap_or_else(RemovedSessions::in_memory)),
            budget: store.budget_of_import(),
            store: store.location().to_string(),
        },
    );
    Ok((writers, sessions))
}

/// Notes where the server is, so that clients of this user give it the token. Without a note, they are
/// given the token by name.
fn note(options: &ServeOptions, address: SocketAddr) -> Option<NotedServer> {
    let local = format!("http://{address}");
    let addresses: Vec<&str> =
        options.public_urls.iter().map(String::as_str).chain([local.as_str()]).collect();
    NotedServer::note(&addresses).unwrap_or_else(|error| {
        print_note(format_args!(
            "warning: clients need `--token-file`, because where this server is cannot be noted: {error}"
        ));
        None
    })
}

/// Prints where the server is, and how to use it.
fn announce(
    options: &ServeOptions,
    address: SocketAddr,
    token: &Token,
    token_path: &std::path::Path,
) -> Result<(), CommandError> {
    let local = format!("http://{address}");
    let url = options.public_urls.first().map_or(local.as_str(), |it| it.trim_end_matches('/'));
    // In the fragment, which a browser keeps to itself.
    let link = format!("{url}/#token={}", token.as_str());
    let file = token_path.display();
    let lines = format!(
        "listening on {local}\n\
         open         {link}\n\
         try          curl -H \"Authorization: Bearer $(cat '{file}')\" '{local}/v1/sessions?limit=5'\n\
         watch        threadfold watch {local} --token-file '{file}'\n"
    );
    let mut out = io::stdout().lock();
    match out.write_all(lines.as_bytes()).and_then(|()| out.flush()) {
        // Whoever started the server need not read what it prints.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        written => written?,
    }
    if options.opens_browser {
        browser::open(&link, token_path);
    }
    Ok(())
}

/// Allows as many open files as the system does: each client is one.
#[cfg(unix)]
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // With fewer, there is room for fewer clients.
    setrlimit(Resource::Nofile, raised).ok();
}

#[cfg(not(unix))]
fn raise_file_limit() {}
