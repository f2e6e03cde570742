/**
 * What the state of a chat holds at most, so that no stream makes a frame dear or lets the memory grow with the lines. What is beyond a
 * bound is the journal's alone, or as it says here. Maps (persistent-map.ts) have O(log n).
 */

/** Blocks of one frame that are read: later ones make no part, call, result or child. A message of more parts is cut into several. */
export const MOST_PARTS = 1000
/** Characters of one message, with its calls' arguments and the results that came early: a longer one is cut into several. */
export const MOST_TEXT = 16 * 1024 * 1024
/** Children that run at once: a call while there are so many makes none, nor does a resume. */
export const MOST_RUNNING = 1024
/** User messages that wait for a step's results, and, in all, characters of them: later ones are in no log. */
export const MOST_WAITING = 256
export const MOST_WAITING_TEXT = MOST_TEXT
/** Frames of a transcript that are known when they come again. */
export const MOST_SEEN = 64
/** User lines that the CLI has and has not begun: for one more the oldest counts as dropped. */
export const MOST_PENDING = 1000
/** Lines that began, whose replay is known: a later replay of an older one is a message of its own. */
export const MOST_BEGUN = 64
/** Steers of one child whose echo is still to come: it takes no more until one came. */
export const MOST_STEERS = 64
/** Tool ids whose tag is one child's: the first, and the latest. */
export const MOST_TAGS = 16
/** Settled children that a resume finds, shell tasks that are known as such, and open `Skill` calls that may become a child. */
export const MOST_REMEMBERED = 4096
/** Children whose `externalId` is known as taken: one that comes again is no new child. */
export const MOST_NAMED = 8192
/** Characters of an id: a longer one counts as none. Characters of a name or a label: a longer one is cut. */
export const MOST_ID = 512
