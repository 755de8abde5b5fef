"""The outside: HTTP, streams, console and command line. Empty until the service comes."""
