// A request with files that tells how much of it has been sent, which fetch does not.

/** Send a request like fetch; its answer can be read while it comes. */
export function upload(address: string, init: RequestInit, onSent: (bytes: number) => void): Promise<Response> {
  const request = new XMLHttpRequest();
  const encoder = new TextEncoder();
  let passed = 0;
  return new Promise((resolve, reject) => {
    const body = new ReadableStream<Uint8Array>({
      start(stream) {
        function pass() {
          stream.enqueue(encoder.encode(request.responseText.slice(passed)));
          passed = request.responseText.length;
        }
        function fail(error: Error | DOMException) {
          reject(error);
          stream.error(error);
        }
        request.onreadystatechange = () => {
          if (request.readyState === XMLHttpRequest.HEADERS_RECEIVED) resolve(new Response(body, { status: request.status, headers: headersOf(request) }));
        };
        request.onprogress = pass;
        request.onload = () => {
          pass();
          stream.close();
        };
        request.onerror = () => fail(new TypeError("The connection was lost."));
        request.onabort = () => fail(new DOMException("The request was ended.", "AbortError"));
      },
    });
    request.upload.onprogress = (event) => onSent(event.loaded);
    init.signal?.addEventListener("abort", () => request.abort());
    request.open(init.method ?? "POST", address);
    new Headers(init.headers).forEach((value, name) => request.setRequestHeader(name, value));
    request.send(init.body as FormData);
  });
}

function headersOf(request: XMLHttpRequest): Headers {
  const lines = request.getAllResponseHeaders().trim().split("\r\n");
  return new Headers(lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()] as [string, string]));
}
