// Answers that are no success.

/** An answer that is no success, as a problem document says it; of a caller: with status 0, no answer at all. */
export class ThreadkeepError extends Error {
  readonly status: number;
  readonly code: string;
  readonly retryAfter: number | null;

  constructor(status: number, code: string, detail: string, retryAfter: number | null = null) {
    super(detail);
    this.name = "ThreadkeepError";
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

/** Return the error of an answer that is no success. */
export async function problemOf(response: Response): Promise<ThreadkeepError> {
  const retryAfter = Number(response.headers.get("Retry-After")) || null;
  try {
    const problem = (await response.json()) as { code: string; detail: string };
    return new ThreadkeepError(response.status, problem.code, problem.detail, retryAfter);
  } catch {
    return new ThreadkeepError(response.status, "no_problem_document", response.statusText, retryAfter);
  }
}
