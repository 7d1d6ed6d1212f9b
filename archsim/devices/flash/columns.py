"""Where the flash kernel keeps what: indices into its one array of int64, ``m``.

``m`` starts with scalars, then the numbers of the device (``K_``) and the starts of regions (``A_``). Everything else
is rows; a row is named by its *handle*, the index of its first number, so ``m[handle + FIELD]`` is a field. One flat
array and handles keep the kernels' calls down to a few registers: a tuple of arrays costs more to pass than most
kernels do. Numba counts references of each array, with atomic instructions, in each kernel that calls one the compiler
does not inline, or that ends in a branch. So kernels on the path of a read call only small ones (the loop over events
calls them) and read ``m`` last of all, and none divides, for that may raise: what needs a division is worked out
before, or packed in powers of two. What is usual on that path has kernels of its own, which leave the rest to the
general ones.
"""

from __future__ import annotations

NEVER = 1 << 62

# Scalars.
NOW, SEQ, CURSOR, LENGTH, FINAL, OUT, OPEN, STARTED, STALLED = range(9)
TAIL, HEAD_SEEN, DEVICE_TAIL, DEVICE_HEAD, TAKEN, IN_DEVICE = range(9, 15)
FREE_REQUESTS, FREE_TRANSACTIONS, BARRIER_HEAD, BARRIER_TAIL, CLOCK = range(15, 20)
F_PAGE, F_REQUEST, F_SEQUENTIAL, LAST_END, AHEAD_NEXT = range(20, 25)
SERVED, READ_SECTORS, WRITTEN_SECTORS, ARRIVAL_SUM = range(26, 30)
N_READ, N_MULTI_READ, N_PROGRAM, N_MULTI_PROGRAM, N_ERASE, N_MULTI_ERASE = range(30, 36)
N_PAGE_READ, N_PAGE_PROGRAM, N_BLOCK_ERASE, N_GC, N_GC_PAGE, N_MAP_READ, N_MAP_WRITE, N_AHEAD = range(36, 44)
PROGRAMMED_SECTORS, MAP_USED, DEPTH, PAUSE = range(44, 48)
STREAM = 48  # six numbers: the random stream of garbage collection
# The two directions of the link: messages taken and put, when the last one is over, where the messages are.
DOWN_LINK, UP_LINK, TOUCHED = 54, 58, 62
NOW_START, NOW_ORDER = 25, 63  # of the event under way
L_HEAD, L_TAIL, L_FREE, L_AREA = range(4)

# Numbers of the device, in the order of tables.Config.
CONFIG = 64
(K_CHANNELS, K_CHIPS, K_PLANES, K_UNITS, K_TOTAL_PLANES, K_SECTORS, K_PAGES_PER_BLOCK, K_BLOCKS) = range(64, 72)
(K_READY_NS, K_PROGRAM_NS, K_ERASE_NS, K_LANES, K_LINK_NUM, K_LINK_DEN, K_PACKET, K_OVERHEAD) = range(72, 80)
(K_DOORBELL_NS, K_FETCH_NS, K_ENTRY_NS, K_COMPLETION_NS, K_HOST_QUEUE, K_DEVICE_QUEUE) = range(80, 86)
(K_GC_THRESHOLD, K_GC_HARD, K_GC_PER_PLANE, K_WRITE_STOP, K_GC_SAMPLE) = range(86, 91)
(K_ISSUE_NS, K_ISSUE_PAGE_NS, K_RESPONSE_NS, K_COMMAND_NS, K_TRANSLATE_NS, K_MAP_SHIFT) = range(91, 97)
(K_SEGMENT_SHIFT, K_SEGMENT_SLOTS, K_MAP_DATA_NS, K_AHEAD, K_COMMANDS_FIRST, K_DATA_BY_PAGE) = range(97, 103)

# Starts of regions, and sizes that kernels need.
(A_READ_NS, A_PROGRAM_CMD_NS, A_ERASE_CMD_NS, A_ARRAY_NS, A_DATA_NS) = range(104, 109)
(A_EVENTS, A_RINGS, A_REQUESTS, A_FREE_REQUEST, A_UNITS, A_CHANNELS, A_PLANES, A_LAYOUT) = range(109, 117)
(A_BLOCKS, A_SEGMENTS, A_CACHED, A_BUFFERS, A_SOURCE, A_OUT, A_MAP, A_OWNER) = range(117, 125)
(A_TRANSACTIONS, A_FREE_TRANSACTION, A_LINKS, Z_RING, Z_MASK, Z_BUFFERS, Z_OUT, Z_LOGICAL, MESSAGE_NS) = range(128, 137)
# MESSAGE_NS + kind is the link time of messages without data of a request.
(EVENTS_END, Z_LINK_MASK, Z_ALL_PLANES, Z_DIRECT) = range(142, 146)
FIRST_REGION = 146

# Rows of pending events, one for each thing that can have one: when it ends (NEVER: none), when that was begun, and its
# place among those begun then. Those of channels come behind the ones named here, then those of chips. A message
# on the link has the same three numbers, then what it is (handle << 3 | kind).
E_END, E_START, E_ORDER, E_MESSAGE = range(4)
E_FIELDS = 4
EVENTS = FIRST_REGION
ARRIVE, CORE, WAKE, FIRMWARE, DOWN, UP, FIRST_CHANNEL = range(EVENTS, EVENTS + 7 * E_FIELDS, E_FIELDS)

# Rings of requests.
RING_WAIT, RING_CORE, RING_WAKE, RING_FIRMWARE, RING_QUEUE, RINGS = range(6)
I_HEAD, I_TAIL, I_DATA = range(3)

# Messages towards the device, then towards the host.
M_COMPLETION_BELL, M_BELL, M_ENTRY, M_FETCH, M_WRITE_FETCH, M_COMPLETION, M_WRITE_DATA, M_READ_DATA = range(8)

# Fields of a request; the source's rows have the first ten.
S_TIME, S_WRITE, S_SECTOR, S_SECTORS, R_FIRST, R_PAGES, R_RESIDUE, R_LINK_NS, R_LOW, R_HIGH, S_FIELDS = range(11)
R_TIME, R_LEFT, R_HEAD, R_FIELDS = 10, 11, 12, 13

# Fields of a transaction: one page at one chip; the key is die << PAGE_BITS | page.
T_NEXT, T_KEY, T_BIT, T_READY, T_PREV, T_PAGE, T_DATA, T_KIND = range(8)
T_LINK, T_REQUEST, T_PLANE, T_ENTRY, T_LOGICAL, T_SECTORS, T_UNIT, T_BLOCK, T_FIELDS = range(8, 17)

# Kinds of transactions: those below WRITE read, those below ERASE program.
READ, UPDATE_READ, GC_READ, MAP_READ, AHEAD_READ, WAITER, WRITE, GC_WRITE, MAP_WRITE, ERASE = range(10)

# Fields of a chip; its queues are heads and tails.
U_BUSY, U_HEAD, U_TAIL, U_LEFT, U_URGENT, U_CHANNEL, U_SLOT, U_QUEUED = range(8)
Q_READ, Q_WRITE, Q_GC_READ, Q_GC_WRITE, Q_ERASE, Q_MAP_READ, Q_MAP_WRITE, U_FIELDS = 8, 10, 12, 14, 16, 18, 20, 22

# Fields of a channel; C_BUSY is QUIET while a command moves whose end, at C_UNTIL, nobody waits for. From C_FIFO on
# heads and tails of waiting mapping, host and collection data.
C_BUSY, C_TRANSACTION, C_TURN, C_UNITS, C_END, C_SLOT, C_QUEUED, C_UNTIL = range(8)
C_FIFO, C_FIELDS = 8, 14
QUIET = 2

# Fields of a plane: open blocks, free blocks, collections running, pages promised to them, waiting pages, stamp, place.
P_USER, P_GC, P_POOL, P_RUNNING, P_RESERVED, P_HEAD, P_TAIL, P_STAMP, P_UNIT, P_DIE, P_BIT, P_BLOCKS = range(12)
P_FIELDS = 12

# Fields of a block; an entry of the mapping is 1 + (block number << PAGE_BITS | page), 0 for none.
B_STATE, B_NEXT, B_INVALID, B_ERASES, B_STAMP, B_READS, B_PROGRAMS, B_GC, B_MOVES, B_ENTRY, B_OWNER = range(11)
B_FIELDS = 11
FREE, OPENED, FULL = range(3)
PAGE_BITS = 14
PAGE_MASK = (1 << PAGE_BITS) - 1

# Fields of a mapping segment and of a read-ahead buffer: heads and tails are of waiting transactions.
G_STAMP, G_CHANGED, G_WRITING, G_HEAD, G_TAIL, G_FIELDS = range(6)
H_PAGE, H_ARRIVED, H_HEAD, H_TAIL, H_FIELDS = range(5)

#: Bit of a mapping entry while garbage collection moves its page.
LOCK = 1 << 61
ENTRY = LOCK - 1
