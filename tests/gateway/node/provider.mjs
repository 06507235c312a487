// An OIDC provider on the loopback interface: every user is logged in, and the form of the login names it.
// It prints its issuer, and signs with a new key at each line that it reads.
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { generateKeyPairSync, randomUUID } from "node:crypto";
import { Provider } from "oidc-provider";

const [audience, clientId, redirectUri, serviceSecret, logoutUri] = process.argv.slice(2);
const scopes = "chat memory:read memory:write memory:review";

function newKey() {
  const jwk = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ format: "jwk" });
  return { ...jwk, kid: randomUUID(), use: "sig", alg: "RS256" };
}

function makeProvider(issuer, keys) {
  return new Provider(issuer, {
    jwks: { keys },
    clients: [
      {
        client_id: clientId,
        token_endpoint_auth_method: "none",
        redirect_uris: [redirectUri],
        grant_types: ["authorization_code"],
        response_types: ["code"],
        backchannel_logout_uri: logoutUri || undefined,
        backchannel_logout_session_required: true,
      },
      {
        client_id: "service",
        client_secret: serviceSecret,
        redirect_uris: [],
        response_types: [],
        grant_types: ["client_credentials"],
      },
    ],
    cookies: { keys: ["test"] },
    fetch: (url, { dispatcher, ...options }) => fetch(url, options), // its own dispatcher refuses the loopback interface
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      rpInitiatedLogout: { enabled: true },
      backchannelLogout: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => audience,
        getResourceServerInfo: () => ({ scope: scopes, audience, accessTokenFormat: "jwt", accessTokenTTL: 3600 }),
        useGrantedResource: () => true,
      },
    },
    scopes: ["openid", ...scopes.split(" ")],
  });
}

let keys = [newKey()];
let provider;
const server = createServer(async (request, response) => {
  const match = /^\/interaction\/([^/?]+)/.exec(request.url);
  if (!match) return provider.callback()(request, response);
  const { prompt, params, session } = await provider.interactionDetails(request, response);
  if (prompt.name === "login") {
    const accountId = params.login_hint ?? "ana";
    return provider.interactionFinished(request, response, { login: { accountId } }, { mergeWithLastSubmission: false });
  }
  const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope("openid");
  grant.addResourceScope(audience, scopes);
  const grantId = await grant.save();
  return provider.interactionFinished(request, response, { consent: { grantId } }, { mergeWithLastSubmission: true });
});
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  provider = makeProvider(issuer, keys);
  console.log(issuer);
  createInterface({ input: process.stdin }).on("line", () => {
    keys = [newKey()];
    provider = makeProvider(issuer, keys);
    console.log("rotated");
  });
});
