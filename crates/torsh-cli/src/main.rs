//! The command `torsh`: fetches, shows, converts and tries the files of models.
#![forbid(unsafe_code)]

mod classify;
mod convert;
mod hub;
mod inspect;
mod output;
mod version;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};

/// Fetches, shows, converts and tries the files of models.
#[derive(Parser)]
#[command(
    name = "torsh",
    disable_version_flag = true,
    arg_required_else_help = true,
    after_help = "Folders and servers are those of PyTorch and the Hugging Face libraries: TORCH_HOME, HF_HOME, HF_HUB_CACHE, \
                  HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE and the variables of proxies are read.\n\
                  `torsh COMMAND --help` says more of a command."
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Prints the version; with --verbose also the machine, as a report of a fault should have it
    #[arg(long, short = 'V')]
    version: bool,
    /// Says more of the version
    #[arg(long, requires = "version")]
    verbose: bool,
    /// Prints JSON, errors as well
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Fetches files into the caches, and says what is there
    #[command(subcommand)]
    Hub(HubCommand),
    /// Shows names, shapes and dtypes of a file's tensors, and what else it holds
    Inspect(InspectArgs),
    /// Writes the tensors of a file in another format
    Convert(ConvertArgs),
    /// Says what a model sees in images
    Classify(ClassifyArgs),
}

#[derive(Subcommand)]
enum HubCommand {
    /// Fetches an address, or files of a repository
    Fetch(FetchArgs),
    /// Lists what is in the caches
    List,
    /// Removes repositories, or files of PyTorch's cache
    Rm {
        /// Repositories (org/name) and names of files, as `torsh hub list` shows them
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Compares files of the caches with their checksums
    Verify {
        /// Repositories and names of files; all where there is none
        names: Vec<String>,
    },
}

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    torsh hub fetch org/name                         all files of a repository\n  \
    torsh hub fetch org/name config.json             one file\n  \
    torsh hub fetch org/name@v1.0 --include '*.json' those that a pattern matches, at a revision\n  \
    torsh hub fetch https://host/model-1234abcd.pth  into PyTorch's cache; the hash in the name is checked\n  \
    torsh hub fetch https://host/data.zip --to data.zip --sha256 0123..")]
struct FetchArgs {
    /// An address (https://..), or a repository: org/name, org/name@revision, datasets/org/name
    source: String,
    /// Files of the repository; all where there is none
    files: Vec<String>,
    /// Only files that this pattern matches (`*` and `?`); may be repeated
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// Where the file of an address is written, in place of PyTorch's cache
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// The SHA-256 that the file has to have, or its first digits
    #[arg(long, value_name = "DIGITS")]
    sha256: Option<String>,
    /// Shows no progress
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Args)]
struct InspectArgs {
    /// safetensors, .pth, .npz, .npy, a list of shards (*.index.json), or a folder with a model
    file: PathBuf,
    /// Shows all values that are no tensors, not only the first
    #[arg(long)]
    all: bool,
}

#[derive(Args)]
#[command(
    after_help = "The format is what the name of OUT ends with: .safetensors, .pt or .pth, .npz.\n\n\
    Example:\n  torsh convert checkpoint.pth model.safetensors --key model.state_dict --strip-prefix module."
)]
struct ConvertArgs {
    /// safetensors, .pth, .npz, a list of shards, a folder with a model, or a TorchScript archive
    input: PathBuf,
    /// The file to write
    output: PathBuf,
    /// Where the tensors are in the file, as model.state_dict
    #[arg(long)]
    key: Option<String>,
    /// What names begin with that is left out, as module.
    #[arg(long, value_name = "PREFIX")]
    strip_prefix: Option<String>,
    /// The dtype of floating-point tensors, as float16
    #[arg(long)]
    dtype: Option<String>,
    /// Leaves out what cannot be read, as tensors of float8 and objects of Python, and says what
    #[arg(long)]
    skip_unreadable: bool,
    /// Replaces a file that is there
    #[arg(long, short)]
    force: bool,
}

#[derive(Args)]
#[command(
    after_help = "Published weights bring the preparation of images and the names of classes that belong to them. They are\n\
    taken from PyTorch's cache, or downloaded to it.\n\n\
    Examples:\n  torsh classify --model resnet18 cat.jpg dog.png\n  \
    torsh classify --model resnet50 --weights IMAGENET1K_V1 cat.jpg\n  \
    torsh classify --model squeezenet1_1 --weights mine.pth --num-classes 3 --categories names.txt cat.jpg"
)]
struct ClassifyArgs {
    /// The model, as resnet18; a wrong name lists those there are
    #[arg(long, short)]
    model: String,
    /// Published weights by name, as IMAGENET1K_V1 (the model's default ones unless given); or a file, an address, a
    /// folder, or a repository with the model's weights; or none, to draw them
    #[arg(long, short)]
    weights: Option<String>,
    /// How many classes the model has, where they are not its own
    #[arg(long, value_name = "N")]
    num_classes: Option<usize>,
    /// A text file with the name of a class on each line
    #[arg(long, value_name = "FILE")]
    categories: Option<PathBuf>,
    /// How many guesses are shown for each image
    #[arg(long, short = 'k', default_value_t = 5, value_name = "K")]
    top: usize,
    /// PNG or JPEG files
    #[arg(required = true)]
    images: Vec<PathBuf>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let json = cli.json;
    if cli.version {
        version::print(cli.verbose, json);
        return ExitCode::SUCCESS;
    }
    let Some(command) = cli.command else {
        let missing = clap::error::ErrorKind::MissingSubcommand;
        Cli::command()
            .error(missing, "a command is missing: `torsh --help` lists them")
            .exit();
    };
    let done = match command {
        Command::Hub(HubCommand::Fetch(args)) => hub::fetch(&args, json),
        Command::Hub(HubCommand::List) => hub::list(json),
        Command::Hub(HubCommand::Rm { names }) => hub::rm(&names, json),
        Command::Hub(HubCommand::Verify { names }) => hub::verify(&names, json),
        Command::Inspect(args) => inspect::run(&args, json),
        Command::Convert(args) => convert::run(&args, json),
        Command::Classify(args) => classify::run(&args, json),
    };
    match done {
        Ok(code) => code,
        Err(e) => {
            output::error(&e, json);
            ExitCode::FAILURE
        }
    }
}
