// Every text that the page shows, except what users and agents write.
export const texts = {
  product: "Threadkeep",
  signIn: "Sign in",
  signOut: "Sign out",
  signInHint: "Talk to an agent that remembers, and see, correct and erase what it remembers.",
  signedInAs: (user: string) => `Signed in as ${user}`,
  noSessions: "This server has no sign-in for browsers. Set THREADKEEP_CLIENT_ID, or THREADKEEP_SINGLE_USER on your own machine.",
  unavailable: "The server cannot be reached. Check the connection, then try again.",
  tryAgain: "Try again",
  loading: "Loading …",
};
