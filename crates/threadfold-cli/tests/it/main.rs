//! The program as a program: arguments in; stdout, stderr and exit code out.

mod env;
mod fold;
mod pipes;
