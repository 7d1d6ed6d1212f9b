"""Host side of the flash kernel: the issuing core, the submission queue, and the link in both directions.

Path of a request: doorbell down, fetch up, entry down, for a write fetch up and data down; then the device works; for a
read data up; completion up, and a doorbell down for that. Each direction carries one message at a time, in order.
Source of the rules: MQSim (CMU-SAFARI, commit 7ec40e3). The times of core and thread are not in it; at zero they
vanish.
"""

from __future__ import annotations

from archsim.devices.flash import columns as k
from archsim.devices.flash.memory import at, oldest, put, take
from archsim.jit import borrower


@borrower
def send_message(m, link, slot, message):
    """Put a message behind those on a direction of the link: ``DOWN_LINK`` and ``DOWN``, or ``UP_LINK`` and ``UP``.

    Data of a read and the bell for a completion change nothing where they arrive, so they only take their time.
    """
    kind = message & 7
    start = max(m[k.NOW], m[link + k.L_FREE])
    end = start + (m[k.MESSAGE_NS + kind] if kind <= k.M_COMPLETION else m[(message >> 3) + k.R_LINK_NS])
    m[link + k.L_FREE] = end
    if kind == k.M_READ_DATA or kind == k.M_COMPLETION_BELL:
        return
    tail = m[link + k.L_TAIL]
    row = m[link + k.L_AREA] + (tail & m[k.Z_LINK_MASK])
    m[row], m[row + k.E_START], m[row + k.E_ORDER], m[row + k.E_MESSAGE] = end, start, m[k.SEQ], message
    m[link + k.L_TAIL] = tail + k.E_FIELDS
    if tail == m[link + k.L_HEAD]:
        m[slot], m[slot + k.E_START], m[slot + k.E_ORDER] = end, start, m[k.SEQ]
    m[k.SEQ] += 1


@borrower
def delivered(m, link, slot):
    """Take the message that has arrived; the event of the one behind it is next."""
    head = m[link + k.L_HEAD]
    message = m[m[link + k.L_AREA] + (head & m[k.Z_LINK_MASK]) + k.E_MESSAGE]
    head += k.E_FIELDS
    m[link + k.L_HEAD] = head
    if head < m[link + k.L_TAIL]:
        row = m[link + k.L_AREA] + (head & m[k.Z_LINK_MASK])
        m[slot], m[slot + k.E_START], m[slot + k.E_ORDER] = m[row], m[row + k.E_START], m[row + k.E_ORDER]
    else:
        m[slot] = k.NEVER
    return message


@borrower
def next_request(m):
    """Take the next request of the source; a free slot and a request must be there."""
    m[k.FREE_REQUESTS] -= 1
    request = m[m[k.A_FREE_REQUEST] + m[k.FREE_REQUESTS]]
    given = m[k.A_SOURCE] + m[k.CURSOR] * k.S_FIELDS
    m[k.CURSOR] += 1
    if m[k.LENGTH] - m[k.CURSOR] < 2 and not m[k.FINAL]:  # an event takes one request at most; times look one ahead
        m[k.PAUSE] = 1
    for field in range(k.S_FIELDS):
        m[request + field] = m[given + field]
    if not m[k.OPEN]:
        m[request + k.S_TIME] = m[k.NOW]
    m[request + k.R_TIME] = m[request + k.S_TIME]
    return request


@borrower
def prepared(m, request):
    """Hand a request to the host core; returns whether it is ready at once because that takes no time."""
    if m[k.K_ISSUE_NS] + m[k.K_ISSUE_PAGE_NS] == 0:
        return True
    if put(m, k.RING_CORE, request) > 1:
        return False
    at(m, k.CORE, m[k.NOW] + core_ns(m, request))
    return False


@borrower
def core_ns(m, request):
    """Time of the issuing core for a request."""
    return m[k.K_ISSUE_NS] + m[k.K_ISSUE_PAGE_NS] * ((m[request + k.S_SECTORS] + 7) >> 3)


@borrower
def issued(m):
    """Queue the request that the host core has prepared, and start on the next."""
    enqueue(m, take(m, k.RING_CORE))
    following = oldest(m, k.RING_CORE)
    if following >= 0:
        at(m, k.CORE, m[k.NOW] + core_ns(m, following))


@borrower
def enqueue(m, request):
    """Put a request into the submission queue and ring its bell, or let it wait while the queue is full."""
    if m[k.TAIL] - m[k.HEAD_SEEN] >= m[k.K_HOST_QUEUE] - 1:
        put(m, k.RING_WAIT, request)
        return
    if m[k.K_ISSUE_NS] + m[k.K_ISSUE_PAGE_NS] == 0:
        m[request + k.R_TIME] = m[k.NOW]
    put(m, k.RING_QUEUE, request)
    m[k.TAIL] += 1
    send_message(m, k.DOWN_LINK, k.DOWN, k.M_BELL)


@borrower
def at_host(m):
    """Deliver a message to the host; returns the request that has completed, or -1."""
    message = delivered(m, k.UP_LINK, k.UP)
    kind, request = message & 7, message >> 3
    if kind == k.M_COMPLETION:
        return request
    answer = request << 3 | k.M_WRITE_DATA
    if kind == k.M_FETCH:
        answer = take(m, k.RING_QUEUE) << 3 | k.M_ENTRY
    send_message(m, k.DOWN_LINK, k.DOWN, answer)
    return -1


@borrower
def completed(m, request):
    """Count a request whose completion is at the host; returns whether one that waited may enter the queue now."""
    write = m[request + k.S_WRITE]
    m[m[k.A_OUT] + m[k.OUT]] = (m[k.NOW] - m[request + k.R_TIME]) * 2 + write
    m[k.OUT] += 1
    if m[k.OUT] == m[k.Z_OUT]:
        m[k.PAUSE] = 1
    m[k.SERVED] += 1
    m[k.WRITTEN_SECTORS if write else k.READ_SECTORS] += m[request + k.S_SECTORS]
    m[k.ARRIVAL_SUM] += m[k.NOW] - m[request + k.S_TIME]
    m[k.HEAD_SEEN] = m[request + k.R_HEAD]
    m[m[k.A_FREE_REQUEST] + m[k.FREE_REQUESTS]] = request
    m[k.FREE_REQUESTS] += 1
    if m[k.TAIL] - m[k.HEAD_SEEN] >= m[k.K_HOST_QUEUE] - 1:
        return False
    return oldest(m, k.RING_WAIT) >= 0


@borrower
def acknowledge(m):
    """Ring the bell for a completion; returns whether the thread has a next request at once."""
    send_message(m, k.DOWN_LINK, k.DOWN, k.M_COMPLETION_BELL)
    if m[k.STALLED]:
        m[k.STALLED] = 0
        at(m, k.ARRIVE, m[k.NOW])
    if m[k.OPEN] or m[k.CURSOR] == m[k.LENGTH]:
        return False
    if m[k.K_RESPONSE_NS] == 0:
        return True
    # The request is chosen when the thread wakes; the delay is the same for all, so they wake in order.
    if put(m, k.RING_WAKE, m[k.NOW] + m[k.K_RESPONSE_NS]) > 1:
        return False
    at(m, k.WAKE, m[k.NOW] + m[k.K_RESPONSE_NS])
    return False


@borrower
def submit(m):
    """Take the next request of the source and let the host core prepare it."""
    request = next_request(m)
    if prepared(m, request):
        enqueue(m, request)


@borrower
def woken(m):
    """Let a thread that waited for its completion issue the next request."""
    take(m, k.RING_WAKE)
    if m[k.CURSOR] < m[k.LENGTH]:
        submit(m)
    following = oldest(m, k.RING_WAKE)
    if following >= 0:
        at(m, k.WAKE, following)


@borrower
def arrive(m):
    """Submit the first requests of a closed loop, or the next one of a source with times."""
    m[k.STARTED] = 1
    if not m[k.OPEN]:
        for _ in range(min(m[k.DEPTH], m[k.LENGTH] - m[k.CURSOR])):
            submit(m)
        return
    if m[k.FREE_REQUESTS] == 0:
        m[k.STALLED] = 1
        return
    submit(m)
    if m[k.CURSOR] < m[k.LENGTH]:
        at(m, k.ARRIVE, max(m[k.NOW], m[m[k.A_SOURCE] + m[k.CURSOR] * k.S_FIELDS + k.S_TIME]))
